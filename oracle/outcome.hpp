#pragma once
#include <algorithm>
#include <cmath>

#include "core/directed.hpp"
#include "oracle/attention.hpp"

namespace attest::oracle {

enum class Outcome : std::uint8_t { inside, outside, undetermined };

// The format a result is rounded to on its way into a tensor: the policy's output format, then the tensor's own.
struct Rounding {
  Format stage, tensor;
  bool flush_to_zero;
  bool outward = false;  // to either neighbour: ends of intervals are rounded outwards
  [[nodiscard]] double low(double x) const noexcept {
    return outward ? round_toward(tensor, round_toward(stage, x, false), false) : (*this)(x);
  }
  [[nodiscard]] double high(double x) const noexcept {
    return outward ? round_toward(tensor, round_toward(stage, x, true), true) : (*this)(x);
  }
  [[nodiscard]] double operator()(double x) const noexcept { return round_to(tensor, round_to(stage, x)); }
};

// The verdict rule of docs/bounds.md, section 5.
Outcome judge_element(const Enclosure& enclosure, const Rounding& round, double got) noexcept;

// Tells whether an enclosure holds the whole hull of its values, which is no point: nothing can fall outside.
inline bool holds_hull(const Enclosure& e) noexcept {
  return e.expect == Expect::number && e.hull_lo < e.hull_hi && e.lo <= e.hull_lo && e.hi >= e.hull_hi;
}
// Tells whether an enclosure says next to nothing: it holds its hull, or is wider than the largest magnitude of its
// values, if that is not 0.
inline bool is_wide(const Enclosure& e) noexcept {
  const double largest = std::max(std::fabs(e.hull_lo), std::fabs(e.hull_hi));
  return holds_hull(e) || (e.expect == Expect::number && largest > 0 && e.hi - e.lo > largest);
}

Evidence evidence_of(const Enclosure& enclosure, const Rounding& round, double got);

}  // namespace attest::oracle
