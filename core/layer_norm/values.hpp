#pragma once
#include <span>

#include "core/layer_norm/problem.hpp"

namespace attest::layer_norm {

// Fills `row` with the values of x, of residual (of row `row_index` of the problem, absolute), of gamma or of beta at
// absolute columns hidden0, hidden0 + 1, ...: before edits and before rounding to storage; every value is finite once
// rounded. Values depend on (seed, tensor, absolute coordinates) alone, without libm: a slice holds the numbers of the
// whole, on every machine.
void draw_row(const Problem& problem, Edit::Tensor which, Index row_index, std::span<double> row) noexcept;

}  // namespace attest::layer_norm
