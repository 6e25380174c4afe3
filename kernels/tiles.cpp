#include "kernels/tiles.hpp"

#include "kernels/arithmetic.hpp"
#include "kernels/rows.hpp"

namespace attest::kernels {
namespace {

template <class Real>
void round_operand(const Call& call, Real* x, Index n) noexcept {
  if (narrower(call[Stage::operand], call[Stage::storage])) round_all(call[Stage::operand], x, n);
}

}  // namespace

template <class Real>
void load_queries(const Call& call, Index b, Index h, Index i0, Index rows, Real* queries) noexcept {
  const Index step = padded(call.d);
  if (step != call.d) std::fill(queries, queries + rows * step, Real{0});
  read_rows(call.q, b, h, i0, rows, call.d, step, queries);
  round_operand(call, queries, rows * step);
}

template <class Real>
void load_keys(const Call& call, Index sample, Index kv_head, Index j0, Index n, Index width, Real* keys) noexcept {
  const Index step = padded(width);
  if (step != n) std::fill(keys, keys + call.d * step, Real{0});
  read_columns(call.k, sample, kv_head, j0, n, call.d, step, keys);
  round_operand(call, keys, call.d * step);
}

template <class Real>
void load_values(const Call& call, Index sample, Index kv_head, Index j0, Index n, Index width, Real* values) noexcept {
  const Index step = padded(call.dv);
  if (width != n || step != call.dv) std::fill(values, values + width * step, Real{0});
  read_rows(call.v, sample, kv_head, j0, n, call.dv, step, values);
  round_operand(call, values, width * step);
}

#define ATTEST_INSTANTIATE(Real)                                                           \
  template void load_queries(const Call&, Index, Index, Index, Index, Real*) noexcept;     \
  template void load_keys(const Call&, Index, Index, Index, Index, Index, Real*) noexcept; \
  template void load_values(const Call&, Index, Index, Index, Index, Index, Real*) noexcept;
ATTEST_INSTANTIATE(float)
ATTEST_INSTANTIATE(double)
#undef ATTEST_INSTANTIATE

}  // namespace attest::kernels
