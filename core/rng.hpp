#pragma once
#include <cstdint>

namespace attest {

// Counter-based random numbers: a value depends on its key alone, so that a slice of a tensor holds the same numbers as the
// whole, on any machine and with any number of threads.

// Bijective finaliser of splitmix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, OOPSLA 2014).
constexpr std::uint64_t mix(std::uint64_t x) noexcept {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

// Absorbs one more coordinate into a key.
constexpr std::uint64_t extend(std::uint64_t key, std::uint64_t coordinate) noexcept {
  return mix(key ^ (coordinate * 0xD6E8FEB86659FD93u + 0x632BE59BD9B4E019u));
}

// A number in [0, n) from 64 random bits, n >= 1 (Lemire's multiply-shift; bias below n/2^64).
constexpr std::uint64_t below(std::uint64_t bits, std::uint64_t n) noexcept {
  return static_cast<std::uint64_t>((static_cast<unsigned __int128>(bits) * n) >> 64);
}

// In (-1, 1), a multiple of 2^-52.
constexpr double symmetric_uniform(std::uint64_t bits) noexcept {
  return static_cast<double>(static_cast<std::int64_t>(bits) >> 11) * 0x1p-52;
}

// Mean 0, variance 1, |x| < 3.47: the sum of four 16-bit uniforms (Irwin-Hall), so that no libm is needed.
constexpr double normal(std::uint64_t bits) noexcept {
  const auto piece = [bits](int shift) { return static_cast<std::int32_t>((bits >> shift) & 0xffff); };
  const std::int32_t sum = piece(0) + piece(16) + piece(32) + piece(48);  // 32 bits, so that loops vectorise
  return static_cast<double>(2 * sum - 4 * 65535) * (0x1p-17 * 1.7320508075688772);
}

}  // namespace attest
