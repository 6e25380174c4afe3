#pragma once
#include "certify/enclosure.hpp"

namespace attest::certify {

// x rounded to nearest, ties to even, once: to +-infinity past the largest finite number.
double rounded(const arf_t x, Format format);

// The format a result is rounded to on its way into a tensor: the output stage's, then the tensor's own.
struct Rounding {
  Format stage, tensor;
  bool flush_to_zero;
  // The least and the largest that a number of the ball rounds to; NaN if it is not finite.
  struct Ends {
    double least, most;
  };
  [[nodiscard]] Ends operator()(const Ball& x) const;
};

struct Judgement {
  Answer answer;
  std::string why;  // one clause
};

// Tells whether no implementation can have given `value`, a number of the tensor's type.
Judgement judge(const Enclosure& enclosure, const Rounding& round, double value);

}  // namespace attest::certify
