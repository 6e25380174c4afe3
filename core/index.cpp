#include "core/index.hpp"

#include <algorithm>
#include <numeric>

namespace attest {

std::vector<Index> spread(Index wanted, Index all) {
  wanted = std::min(wanted, all);
  std::vector<Index> numbers(static_cast<std::size_t>(std::max<Index>(wanted, 0)));
  std::iota(numbers.begin(), numbers.end(), Index{0});
  if (wanted < all && wanted > 1)
    for (Index& n : numbers) n = static_cast<Index>(static_cast<__int128>(n) * (all - 1) / (wanted - 1));
  return numbers;
}

}  // namespace attest
