#pragma once
#include "kernels/call.hpp"

// Queries, keys and values on their way into a product: contiguous, rounded to the operand format, padded with zeros.
namespace attest::kernels {

// queries[r * padded(d) + e]: rows [i0, i0 + rows) of query head h.
template <class Real>
void load_queries(const Call& call, Index b, Index h, Index i0, Index rows, Real* queries) noexcept;

// keys[e * padded(width) + j]: `n` keys from j0 on, key by key in neighbouring lanes; zeros for j in [n, padded(width)).
template <class Real>
void load_keys(const Call& call, Index sample, Index kv_head, Index j0, Index n, Index width, Real* keys) noexcept;

// values[j * padded(dv) + c]: the values of `n` keys from j0 on; zeros for j in [n, width).
template <class Real>
void load_values(const Call& call, Index sample, Index kv_head, Index j0, Index n, Index width, Real* values) noexcept;

}  // namespace attest::kernels
