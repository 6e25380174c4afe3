#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "generators/domain.hpp"
#include "generators/source.hpp"

namespace attest {

// Draws an index of `weights` that lies in `allowed` and passes `possible`, with probability proportional to its
// weight; if all of these weigh nothing, each equally. There must be one, and `most_weights` at most.
inline constexpr std::size_t most_weights = 64;
using Weights = std::span<const std::uint16_t>;
template <class Possible>
Index weighted(Source& source, Weights weights, Range allowed, Possible&& possible) {
  std::array<Index, most_weights> cumulative;
  Index total = 0, count = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
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

inline Index weighted(Source& source, Weights weights, Range allowed) {
  return weighted(source, weights, allowed, [](Index) { return true; });
}

// Draws a field by the weights of its row, within what the domain leaves of it.
template <auto Member, class... Possible>
void draw_field(Problem& problem, const Domain& domain, Source& source, Possible&&... possible) {
  auto& member = problem.*Member;
  member = static_cast<std::remove_reference_t<decltype(member)>>(
      weighted(source, field_of<Member>().weights, domain.range<Member>(), possible...));
}

}  // namespace attest
