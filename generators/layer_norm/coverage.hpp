#pragma once
#include "generators/coverage.hpp"
#include "generators/layer_norm/domain.hpp"

namespace attest::layer_norm {

// Counts the problems 0..count-1 of `seed` that a domain draws, field by field. There are no tables: one field draws
// all that must meet here.
Coverage cover(const Domain& domain, std::uint64_t seed, std::uint64_t count);

}  // namespace attest::layer_norm
