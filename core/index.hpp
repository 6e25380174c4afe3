#pragma once
#include <cstdint>
#include <vector>

namespace attest {

using Index = std::int64_t;

// `wanted` numbers below `all`, spread evenly, both ends included; all of them where no more are there.
std::vector<Index> spread(Index wanted, Index all);

}  // namespace attest
