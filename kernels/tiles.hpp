#pragma once
#include "kernels/arithmetic.hpp"
#include "kernels/call.hpp"

// Queries, keys and values on their way into a product: contiguous, rounded to the operand format, padded with zeros.
namespace attest::kernels {

// n numbers of a stage's format, as operands of a product.
template <class Real>
void round_operands(const Call& call, Stage from, Real* x, Index n) noexcept {
  if (narrower(call[Stage::operand], call[from])) round_all(call[Stage::operand], x, n);
}

// out[r * padded(columns) + c]: rows [i0, i0 + rows) of head h of q, k or v, and zeros up to `width` rows.
template <class Real>
void load_rows(const Call& call, const View& view, Index b, Index h, Index i0, Index rows, Index columns, Index width,
               Real* out) noexcept;
// The same turned: out[c * padded(width) + r], and zeros for r in [rows, padded(width)).
template <class Real>
void load_columns(const Call& call, const View& view, Index b, Index h, Index i0, Index rows, Index columns,
                  Index width, Real* out) noexcept;

// queries[r * padded(d) + e]: rows [i0, i0 + rows) of query head h.
template <class Real>
void load_queries(const Call& call, Index b, Index h, Index i0, Index rows, Real* queries) noexcept;

// Writes keys[e * padded(width) + j]: `n` keys from j0 on, key by key in neighbouring lanes; zeros for j in [n,
// padded(width)).
template <class Real>
void load_keys(const Call& call, Index sample, Index kv_head, Index j0, Index n, Index width, Real* keys) noexcept;

// values[j * padded(dv) + c]: the values of `n` keys from j0 on; zeros for j in [n, width).
template <class Real>
void load_values(const Call& call, Index sample, Index kv_head, Index j0, Index n, Index width, Real* values) noexcept;

// Queries and values as load_queries() and load_values() leave them, `step` apart: where they lie, if nothing is to be
// done to them, or in `room`. No zeros follow queries in place.
template <class Real>
struct RowsAt {
  const Real* data;
  Index step;
};
template <class Real>
RowsAt<Real> queries_of(const Call& call, Index b, Index h, Index i0, Index rows, Real* room) noexcept;
// Keys where they lie, from j0 on; no data if something is to be done to them.
template <class Real>
RowsAt<Real> keys_in_place(const Call& call, Index sample, Index kv_head, Index j0) noexcept;
template <class Real>
RowsAt<Real> values_of(const Call& call, Index sample, Index kv_head, Index j0, Index n, Real* room) noexcept;

}  // namespace attest::kernels
