#pragma once
#include "generators/coverage.hpp"
#include "generators/mha/domain.hpp"

namespace attest::mha {

// Counts the problems 0..count-1 of `seed` that a domain draws, field by field. No tables.
Coverage cover(const Domain& domain, std::uint64_t seed, std::uint64_t count);

}  // namespace attest::mha
