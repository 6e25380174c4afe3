#pragma once
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/problem.hpp"
#include "core/rng.hpp"

namespace attest {

// Returns the number of bits of n >= 0: the octave [2^(k-1), 2^k) is that of numbers of k bits.
constexpr Index bits_of(Index n) noexcept { return static_cast<Index>(std::bit_width(static_cast<std::uint64_t>(n))); }

// Random choices from one 64-bit key: the same on every compiler, machine and standard library, as long as an
// expression draws once only (which of two operands or arguments is evaluated first is the compiler's choice).
class Source {
 public:
  explicit constexpr Source(std::uint64_t key) noexcept : state_(key) {}

  [[gnu::always_inline]] constexpr std::uint64_t next() noexcept { return mix(state_ += 0x9E3779B97F4A7C15u); }

  // Draws from [0, n), n >= 1.
  constexpr Index below(Index n) noexcept {
    return static_cast<Index>(attest::below(next(), static_cast<std::uint64_t>(n)));
  }
  // Draws from [lo, hi].
  constexpr Index between(Index lo, Index hi) noexcept { return lo + below(hi - lo + 1); }
  // True `of` times in `out_of`.
  constexpr bool chance(Index of, Index out_of) noexcept { return below(out_of) < of; }
  template <typename T>
  constexpr T pick(std::span<const T> choices) noexcept {
    return choices[static_cast<std::size_t>(below(static_cast<Index>(choices.size())))];
  }
  template <typename T, std::size_t N>
  constexpr T pick(const std::array<T, N>& choices) noexcept {
    return pick(std::span<const T>(choices));
  }

  // Draws from [1, limit], limit >= 1: every octave equally often, within an octave uniform. It is log-uniform to
  // within a factor 1.5, in integers alone.
  constexpr Index log_uniform(Index limit) noexcept {
    const Index first = Index{1} << below(bits_of(limit));
    return between(first, limit < 2 * first ? limit : 2 * first - 1);
  }

 private:
  std::uint64_t state_;
};

}  // namespace attest
