#pragma once
#include <array>
#include <vector>

#include "certify/ball.hpp"
#include "core/tensor.hpp"

namespace attest::certify {

// A tensor of four axes of which each element is known to lie within a radius of a centre, if at all.
struct Intervals {
  struct Element {
    Ball centre, radius;
    bool known = true;  // else it may be anything, be it finite or not
  };
  std::array<Index, 4> shape{};
  std::vector<Element> elements;  // in the order of their indices

  [[nodiscard]] const Element& at(Index b, Index h, Index i, Index c) const {
    return elements[static_cast<std::size_t>(((b * shape[1] + h) * shape[2] + i) * shape[3] + c)];
  }
};

// Attention's inputs where they are intervals (docs/bounds.md, section 3). They take the place of Inputs' q, k and v,
// which are then read for their shapes alone.
struct Operands {
  Intervals q, k, v;
  bool exact = true;  // every radius is 0
};

}  // namespace attest::certify
