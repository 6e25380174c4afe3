#pragma once
#include <cstdint>
#include <vector>

namespace attest {

using Index = std::int64_t;

// `wanted` numbers below `all`, spread evenly, both ends included; all of them where no more are there.
std::vector<Index> spread(Index wanted, Index all);

// The n-th of `wanted` numbers below `all`, ascending in n: the first, the last, and one from each of equal stretches between them,
// which `seed` draws; n itself where no more are there.
Index drawn(Index n, Index wanted, Index all, std::uint64_t seed);
// All of them.
std::vector<Index> drawn(Index wanted, Index all, std::uint64_t seed);

}  // namespace attest
