#pragma once
#include <bit>
#include <cstdint>

namespace attest {

// Counter-based random numbers: a value depends on its key alone, so that a slice of a tensor holds the same numbers as
// the whole, on any machine and with any number of threads.

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

// below() for n < 2^32, by products that wide registers have.
constexpr std::uint64_t below_few(std::uint64_t bits, std::uint64_t n) noexcept {
  return ((bits >> 32) * n + ((bits & 0xffffffff) * n >> 32)) >> 32;
}

// x < 2^51, by what registers of any width have: not all of them have the conversion.
constexpr double as_double(std::uint64_t x) noexcept { return std::bit_cast<double>(x | 0x4330000000000000) - 0x1p52; }

// Returns a number in (-1, 1), a multiple of 2^-52.
constexpr double symmetric_uniform(std::uint64_t bits) noexcept {
  return static_cast<double>(static_cast<std::int64_t>(bits) >> 11) * 0x1p-52;
}

// Mean 0, variance 1, |x| < 3.47: the sum of four 16-bit uniforms (Irwin-Hall), so that no libm is needed.
constexpr double normal(std::uint64_t bits) noexcept {
  constexpr std::uint64_t every_other = 0x0000ffff0000ffff;
  const std::uint64_t pairs = (bits & every_other) + (bits >> 16 & every_other);
  return (2 * as_double((pairs & 0xffffffff) + (pairs >> 32)) - 4 * 65535) * (0x1p-17 * 1.7320508075688772);
}

}  // namespace attest
