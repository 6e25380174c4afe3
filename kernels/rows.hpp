#pragma once
#include "kernels/call.hpp"

// The way between tensors in memory and the kernels' contiguous workspaces. Real is float or double; float holds every
// element of a call whose policy has no f64 stage.
namespace attest::kernels {

// Reads out[r * row_step + c * column_step] = the element r * row_stride + c * column_stride past `first`, for rows x
// columns.
struct Block {
  Index rows = 0, columns = 0;
  Index row_stride = 0, column_stride = 0;  // in elements of the tensor
  Index row_step = 0, column_step = 1;      // in elements of the workspace
};
template <class Real>
void read_block(const std::byte* first, DType type, const Block& block, Real* out) noexcept;

// Rows [i0, i0 + rows) of head (b, h), row by row, `step` apart.
template <class Real>
void read_rows(const View& view, Index b, Index h, Index i0, Index rows, Index columns, Index step,
               Real* out) noexcept {
  read_block(view.at(b, h, i0), view.type, {rows, columns, view.strides[2], view.strides[3], step, 1}, out);
}

// The same, column by column: element (r, c) at out[c * step + r].
template <class Real>
void read_columns(const View& view, Index b, Index h, Index i0, Index rows, Index columns, Index step,
                  Real* out) noexcept {
  read_block(view.at(b, h, i0), view.type, {rows, columns, view.strides[2], view.strides[3], 1, step}, out);
}

// One row of a tensor from x, rounded once to its type.
template <class Real>
void write_row(const View& view, Index b, Index h, Index i, Index columns, const Real* x) noexcept;

// Single elements of `count` rows, at most 64, each `offset` bytes past where its row begins.
void read_scattered(const std::byte* const* rows, Index offset, DType type, Index count, float* out) noexcept;
// Each rounded once to the type.
void write_scattered(std::byte* const* rows, Index offset, DType type, Index count, const float* x) noexcept;

// A finished row of out, rounded to the output format, and of lse where the call asks for it.
template <class Real>
void write_output(const Call& call, Index b, Index h, Index i, Real* row, const Real* lse) noexcept;

}  // namespace attest::kernels
