#include "core/index.hpp"

#include <algorithm>

namespace attest {

std::vector<Index> spread(Index wanted, Index all) {
  wanted = std::min(wanted, all);
  std::vector<Index> numbers;
  numbers.reserve(static_cast<std::size_t>(wanted));
  for (Index n = 0; n < wanted && wanted == all; ++n) numbers.push_back(n);
  for (Index n = 0; n < wanted && wanted < all; ++n)
    numbers.push_back(wanted == 1 ? 0 : static_cast<Index>(static_cast<__int128>(n) * (all - 1) / (wanted - 1)));
  return numbers;
}

}  // namespace attest
