#pragma once
#include "generators/coverage.hpp"
#include "generators/layer_norm/domain.hpp"

namespace attest::layer_norm {

// What a domain draws, field by field, over problems 0..count-1 of `seed`. No tables: what must meet here is drawn by one field.
Coverage cover(const Domain& domain, std::uint64_t seed, std::uint64_t count);

}  // namespace attest::layer_norm
