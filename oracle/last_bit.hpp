#pragma once
#include <bit>
#include <cstdint>

// Facts that the bits of a double tell.

namespace attest::oracle {

// The exponent of the last bit of a finite number that is not 0.
inline int last_bit(double x) {
  const auto bits = std::bit_cast<std::uint64_t>(x);
  const std::uint64_t fraction = bits & ((std::uint64_t{1} << 52) - 1);
  const int exponent = static_cast<int>(bits >> 52 & 0x7ff);
  if (exponent == 0) return -1074 + std::countr_zero(fraction);
  return exponent - 1075 + std::countr_zero(fraction | std::uint64_t{1} << 52);
}

// 2^floor(log2 x) of a normal x > 0; 0 of a subnormal one.
inline double power_of_normal(double x) {
  return std::bit_cast<double>(std::bit_cast<std::uint64_t>(x) & 0x7ff0000000000000);
}

}  // namespace attest::oracle
