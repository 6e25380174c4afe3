#pragma once
#include "kernels/tiles.hpp"

// The two products of attention, for several rows of one head at once. An f32 stage runs in blocks of registers. Any
// other stage, and a row with closed keys beside values that are not finite, runs row by row. Both give the same bits.
// Real is float or double.
namespace attest::kernels {

// dots[r * dots_step + j] = q_r . k_j, then times the scale and rounded as apply_scale() does, for `rows` queries as
// load_queries() leaves them, q_step apart, and n keys as load_keys() does.
template <class Real>
void scaled_dots(const Call& call, const Real* queries, Index q_step, Index rows, const Real* keys, Index n, Real* dots,
                 Index dots_step) noexcept;

// Computes the same for one row and the n keys from j0 on, read where they lie; n dots, not padded(n). Returns false,
// with nothing done, where some stage is not f32 or the keys have to be loaded first.
bool scaled_dots_in_place(const Call& call, Index sample, Index kv_head, Index j0, Index n, const float* query,
                          float* dots) noexcept;
inline bool scaled_dots_in_place(const Call&, Index, Index, Index, Index, const double*, double*) noexcept {
  return false;
}

// Adds to output[r * padded(dv) + c] the sum over the open keys j of weights[r * step + j] times element c of the j-th
// value, in ascending j, for n keys, at most 128. An open key has a score above -inf; the weight of every other is 0,
// or all of the row's are NaN. `all_open`: all are.
template <class Real>
void weigh_rows(const Call& call, const Real* weights, const Real* scores, Index step, Index rows, Index n,
                const RowsAt<Real>& values, bool all_open, Real* output) noexcept;

}  // namespace attest::kernels
