#pragma once
#include <limits>

#include "oracle/lanes.hpp"

namespace attest::oracle {

inline constexpr double lane_infinity = std::numeric_limits<double>::infinity();

// Half the gap between `out` and its neighbour on the side of y, and no more: what rounding may have added.
template <class L>
ATTEST_LANE_FN L half_gap(const L& out, const L& y, double unit, double tiny) {
  const L magnitude = abs(out), power = bits_as<L>(bits_as<typename L::Bits>(magnitude) & 0x7ff0000000000000);
  const L half = power * unit;
  const auto towards_zero = (magnitude == power) & (abs(y) < magnitude);
  return max(select(towards_zero, 0.5 * half, half), L(tiny)) * slack;
}

}  // namespace attest::oracle
