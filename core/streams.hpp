#pragma once
#include <cstdint>

#include "core/problem.hpp"
#include "core/rng.hpp"

namespace attest {

// The use of a random key; each stream is independent of the others.
enum class Stream : std::uint64_t { q, k, v, bias, keep, kv_lengths, direction, channel, peak, row, level };

inline std::uint64_t stream_of(const Problem& problem, Stream which) noexcept {
  return extend(mix(problem.seed), static_cast<std::uint64_t>(which));
}

// Holds for one key in eight.
constexpr bool one_in_eight(std::uint64_t key) noexcept { return (key & 7) == 0; }

}  // namespace attest

// The attribute of functions that are compiled for the least machine and for more, the best of which is chosen as a
// program starts. Hashes are 64-bit integer arithmetic, which wide registers do for several elements at once, with the
// same bits.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define ATTEST_CLONES __attribute__((target_clones("default", "avx2", "arch=x86-64-v4")))
#else
#define ATTEST_CLONES
#endif
