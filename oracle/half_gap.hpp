#pragma once
#include <limits>

#include "oracle/lanes.hpp"

namespace attest::oracle {

inline constexpr double lane_infinity = std::numeric_limits<double>::infinity();

// 2^floor(log2 x) of a normal x, whose sign is clear; 0 of a subnormal one.
template <class L>
ATTEST_LANE_FN L power_of(const L& x) {
  return bits_as<L>(bits_as<typename L::Bits>(x) & 0x7ff0000000000000);
}

// The value of the lowest bit of |x|; infinity of 0.
template <class L>
ATTEST_LANE_FN L lowest_bit(const L& size) {
  using Bits = typename L::Bits;
  const Bits bits = bits_as<Bits>(size);
  const L rest = zero_unless((bits & 0xfffffffffffff) != Bits(0), bits_as<L>(bits & (bits + Bits(-1))));
  return select(size > L(0), size - rest, L(lane_infinity));
}

// Half the gap between `out` and its neighbour on the side of y, and no more: what rounding may have added.
template <class L>
ATTEST_LANE_FN L half_gap(const L& out, const L& y, double unit, double tiny) {
  const L magnitude = abs(out), power = power_of(magnitude);
  const L half = power * unit;
  const auto towards_zero = (magnitude == power) & (abs(y) < magnitude);
  return max(select(towards_zero, 0.5 * half, half), L(tiny)) * slack;
}

}  // namespace attest::oracle
