#pragma once
#include <array>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/verdict.hpp"
#include "properties/compare.hpp"

// Two results of one problem beside each other, whatever the operation.
namespace attest::properties {

// One element of both results.
struct ElementPair {
  std::string tensor;
  std::array<Index, 4> index{};
  double a = 0, b = 0;
};
// The permitted results of an element, by the contract of each side.
struct SeenElements {
  Sighting a, b;
  bool open = false;  // a side permits more than its enclosure tells
};
using See = std::function<SeenElements(const ElementPair&)>;
// Calls `look` with each element that differs as a number, until that says false.
using Differing = std::function<void(const std::function<bool(const ElementPair&)>& look)>;

// Judges as properties/pair.hpp does: fail with the first element at which two results differ by more than both may, so
// that at least one of them is wrong; warn where both are right though only one gives a number; else pass, or vacuous.
// `of_a` and `of_b` are the verdicts of each side's oracle on its result.
Verdict held_together(Verdict of_a, Verdict of_b, const Differing& differing, const See& see);

// Both sides of one element, as evidence holds them.
std::vector<Side> sides_of(const SeenElements& seen);

// A tensor of both results; absent ones are passed over.
struct TensorPair {
  std::string_view name;
  const Tensor &a, &b;
};
// The first element whose bits differ.
std::optional<Evidence> first_other_bits(std::span<const TensorPair> tensors, const See& see, Counts& counts);

}  // namespace attest::properties
