#pragma once
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/tensor.hpp"

namespace attest::oracle::layer_norm {

// Of two of key(0), .. key(n - 1) at random, how likely it is that they are one. A key is an array of numbers, none of them NaN.
template <class Key>
double alike_of(Index n, const Key& key) {
  if (n <= 0) return 1;
  const auto count = static_cast<std::size_t>(n);
  struct Group {
    std::size_t size = 0, first = 0;
  };
  const std::size_t places = std::bit_ceil(2 * count);
  const int unused_bits = 64 - std::countr_zero(places);
  std::vector<Group> groups(places);  // each where its key's hash says, or at the next free place
  std::uint64_t pairs = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const auto of_key = key(i);
    std::uint64_t hash = 0;
    for (const double part : of_key) {
      hash ^= std::bit_cast<std::uint64_t>(part + 0.0);  // of -0 that of 0
      hash = (hash ^ hash >> 32) * 0x9e3779b97f4a7c15;
    }
    std::size_t at = static_cast<std::size_t>(hash >> unused_bits);
    while (groups[at].size > 0 && key(groups[at].first) != of_key) at = (at + 1) & (places - 1);
    if (groups[at].size == 0) groups[at].first = i;
    pairs += 2 * groups[at].size++ + 1;
  }
  const auto all = static_cast<double>(n);
  return static_cast<double>(pairs) / all / all;
}

}  // namespace attest::oracle::layer_norm
