#pragma once
#include <span>

#include "core/problem.hpp"
#include "generators/source.hpp"

namespace attest {

// Draws a size of about [1, cap] (maybe a little outside: the caller clips), cap >= 1, biased towards the sizes at
// which kernels break: the field's own `edges` (ascending), powers of two and multiples of tile sizes with their
// neighbours, primes, 1 and cap; log-uniform in a quarter of the draws.
Index edge_biased(Source& source, std::span<const Index> edges, Index cap);

}  // namespace attest
