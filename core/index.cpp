#include "core/index.hpp"

#include <algorithm>
#include <numeric>

#include "core/rng.hpp"

namespace attest {

std::vector<Index> spread(Index wanted, Index all) {
  wanted = std::min(wanted, all);
  std::vector<Index> numbers(static_cast<std::size_t>(std::max<Index>(wanted, 0)));
  std::iota(numbers.begin(), numbers.end(), Index{0});
  if (wanted < all && wanted > 1)
    for (Index& n : numbers) n = static_cast<Index>(static_cast<__int128>(n) * (all - 1) / (wanted - 1));
  return numbers;
}

Index drawn(Index n, Index wanted, Index all, std::uint64_t seed) {
  if (wanted >= all || n == 0) return n;
  if (n == wanted - 1) return all - 1;
  const auto stretch = [&](Index end) {
    return 1 + static_cast<Index>(static_cast<__int128>(end) * (all - 2) / (wanted - 2));
  };
  const Index first = stretch(n - 1), room = stretch(n) - first;
  return first +
         static_cast<Index>(below(extend(seed, static_cast<std::uint64_t>(n)), static_cast<std::uint64_t>(room)));
}

std::vector<Index> drawn(Index wanted, Index all, std::uint64_t seed) {
  std::vector<Index> numbers(static_cast<std::size_t>(std::clamp<Index>(wanted, 0, all)));
  for (std::size_t n = 0; n < numbers.size(); ++n) numbers[n] = drawn(static_cast<Index>(n), wanted, all, seed);
  return numbers;
}

}  // namespace attest
