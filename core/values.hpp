#pragma once
#include <span>

#include "core/problem.hpp"

namespace attest {

// Fills `rows`, row-major and `width` columns wide, with the values of tensor `which` (q, k or v) at absolute
// coordinates (batch, head, position), position + 1, ... and columns first_column, first_column + 1, ...: distribution
// and form, before edits and before rounding to storage; every value is finite in the problem's dtype. Without libm:
// the same bits on every machine.
void draw_rows(const Problem& problem, Edit::Tensor which, Index batch, Index head, Index position, Index first_column,
               Index width, std::span<double> rows) noexcept;

// A block of such rows: `samples` times `heads` times `length` of them, from these coordinates on, each `width` columns
// wide.
struct DrawnBlock {
  Index batch, samples, head, heads, position, length, first_column, width;
};
// Fills a whole block with the same values, one row behind the other, samples outermost. Many short rows take a
// fraction of the time.
void draw_block(const Problem& problem, Edit::Tensor which, const DrawnBlock& block, std::span<double> rows) noexcept;

// One row of the keep tensor (1 = attend, 0 = masked) or of the bias, at absolute batch, head and query, for the first
// row.size() keys of this problem. Axes that the tensor does not vary along must be passed as 0.
void draw_keep_row(const Problem& problem, Index batch, Index head, Index query, std::span<double> row) noexcept;
void draw_bias_row(const Problem& problem, Index batch, Index head, Index query, std::span<double> row) noexcept;

// Keys of a sample, 0..lk.
Index draw_length(const Problem& problem, Index batch) noexcept;

}  // namespace attest
