#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

#include "generators/domain.hpp"
#include "generators/source.hpp"

namespace attest {

// An index of `weights` that lies in `allowed` and passes `possible`, with probability proportional to its weight; if all
// of these weigh nothing, each equally. There must be one.
template <std::size_t N, class Possible>
Index weighted(Source& source, const std::array<std::uint16_t, N>& weights, Range allowed, Possible&& possible) {
  std::array<Index, N> cumulative{};
  Index total = 0, count = 0;
  for (std::size_t i = 0; i < N; ++i) {
    const bool in = allowed.contains(static_cast<Index>(i)) && possible(static_cast<Index>(i));
    total += in ? weights[i] : 0;
    count += in ? 1 : 0;
    cumulative[i] = total;
  }
  if (total > 0) {
    const Index ticket = source.below(total);
    std::size_t i = 0;
    while (cumulative[i] <= ticket) ++i;
    return static_cast<Index>(i);
  }
  Index skip = source.below(count);
  for (Index i = allowed.lo;; ++i)
    if (possible(i) && skip-- == 0) return i;
}

template <std::size_t N>
Index weighted(Source& source, const std::array<std::uint16_t, N>& weights, Range allowed) {
  return weighted(source, weights, allowed, [](Index) { return true; });
}

}  // namespace attest
