#pragma once
#include "oracle/lanes.hpp"

// Functions compiled once per instruction set. None of them contracts a product and a sum, and what differs between
// machines is the speed alone.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__)
#define ATTEST_CLONES __attribute__((target_clones("default", "avx2", "avx512f")))
#else
#define ATTEST_CLONES
#endif

namespace attest::oracle {

// Half the gap between `out` and its neighbour on the side of y, and no more: what rounding may have added.
ATTEST_LANE_FN Lanes half_gap(Lanes out, Lanes y, double unit, double tiny) {
  constexpr double slack = 1 - 1e-6;
  const Lanes magnitude = abs(out), power = (Lanes)((LaneBits)magnitude & 0x7ff0000000000000);
  const Lanes half = power * unit;
  const LaneBits towards_zero = (magnitude == power) & (abs(y) < magnitude);
  return max(select(towards_zero, 0.5 * half, half), fill(tiny)) * slack;
}

ATTEST_LANE_FN std::uint8_t bits_of(LaneBits set) {
  std::uint8_t bits = 0;
  for (int n = 0; n < lane_count; ++n) bits = static_cast<std::uint8_t>(bits | (set[n] & 1) << n);
  return bits;
}

ATTEST_LANE_FN Lanes lane_numbers() { return Lanes{0, 1, 2, 3, 4, 5, 6, 7}; }

}  // namespace attest::oracle
