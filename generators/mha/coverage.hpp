#pragma once
#include "generators/coverage.hpp"
#include "generators/mha/domain.hpp"

namespace attest::mha {

// What a domain draws, field by field, over problems 0..count-1 of `seed`. No tables.
Coverage cover(const Domain& domain, std::uint64_t seed, std::uint64_t count);

}  // namespace attest::mha
