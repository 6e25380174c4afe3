#pragma once
#include "core/problem.hpp"

// What a reproducer may differ in from the problem that failed: the value of an option, never its presence. Another defect may
// hide in an option that was not there.
namespace attest::engine {

// Whether `to` has an option that `from` lacks: causality, a window, a mask, a bias that closes keys where none did, a type of
// bias, axes that a mask shares, key lengths, groups of heads, a scale, one that is not positive, a softcap, a layout,
// rows off their boundary, a log-sum-exp, a number of threads.
bool adds_option(const Problem& from, const Problem& to) noexcept;

// Biases that close keys, or all but close them.
constexpr bool closes_keys(Bias bias) noexcept {
  switch (bias) {
    case Bias::minus_inf:
    case Bias::lowest:
    case Bias::minus_1e4:
    case Bias::padding:
    case Bias::empty_inf:
    case Bias::empty_lowest:
      return true;
    case Bias::none:
    case Bias::zero:
    case Bias::normal:
    case Bias::alibi:
    case Bias::large:
      break;
  }
  return false;
}

// Layouts of which some row begins off the boundaries that rows of a contiguous tensor keep.
constexpr bool off_boundary(Layout layout) noexcept {
  return layout == Layout::padded_rows || layout == Layout::odd_base || layout == Layout::transposed ||
         layout == Layout::slice;
}

}  // namespace attest::engine
