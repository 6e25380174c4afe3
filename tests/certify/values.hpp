#pragma once
#include <algorithm>
#include <cmath>
#include <limits>

#include "certify/ball.hpp"
#include "core/format.hpp"

namespace attest {

// The middle of a ball.
inline double number(const certify::Ball& x) { return arf_get_d(arb_midref(x.get()), ARF_RND_NEAR); }

// The neighbour of x in `format`.
inline double step(Format format, double x, bool up) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  if (!std::isfinite(x)) return x;
  if (format == Format::f64) return std::nextafter(x, up ? infinity : -infinity);
  const double least = 2 * half_smallest_subnormal(format);
  for (double move = std::max(std::fabs(x) * unit_roundoff(format), least);; move *= 1.5)
    if (const double y = round_to(format, up ? x + move : x - move); y != x) return y;
}

}  // namespace attest
