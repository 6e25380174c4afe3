#include "kernels/tiles.hpp"

#include <type_traits>

#include "kernels/rows.hpp"

namespace attest::kernels {

template <class Real>
void load_rows(const Call& call, const View& view, Index b, Index h, Index i0, Index rows, Index columns, Index width,
               Real* out) noexcept {
  const Index step = padded(columns);
  if (width != rows || step != columns) std::fill(out, out + width * step, Real{0});
  read_rows(view, b, h, i0, rows, columns, step, out);
  round_operands(call, Stage::storage, out, width * step);
}

template <class Real>
void load_columns(const Call& call, const View& view, Index b, Index h, Index i0, Index rows, Index columns,
                  Index width, Real* out) noexcept {
  const Index step = padded(width);
  if (step != rows) std::fill(out, out + columns * step, Real{0});
  read_columns(view, b, h, i0, rows, columns, step, out);
  round_operands(call, Stage::storage, out, columns * step);
}

template <class Real>
void load_queries(const Call& call, Index b, Index h, Index i0, Index rows, Real* queries) noexcept {
  load_rows(call, call.q, b, h, i0, rows, call.d, rows, queries);
}

template <class Real>
void load_keys(const Call& call, Index sample, Index kv_head, Index j0, Index n, Index width, Real* keys) noexcept {
  load_columns(call, call.k, sample, kv_head, j0, n, call.d, width, keys);
}

template <class Real>
void load_values(const Call& call, Index sample, Index kv_head, Index j0, Index n, Index width, Real* values) noexcept {
  load_rows(call, call.v, sample, kv_head, j0, n, call.dv, width, values);
}

namespace {
// Tells whether rows of the tensor may be read as floats where they lie.
template <class Real>
bool in_place(const Call& call, const View& view) noexcept {
  return std::is_same_v<Real, float> && view.type == DType::f32 && view.strides[3] == 1 &&
         !narrower(call[Stage::operand], Format::f32);
}
}  // namespace

template <class Real>
RowsAt<Real> queries_of(const Call& call, Index b, Index h, Index i0, Index rows, Real* room) noexcept {
  if (in_place<Real>(call, call.q)) return {reinterpret_cast<const Real*>(call.q.at(b, h, i0)), call.q.strides[2]};
  load_queries(call, b, h, i0, rows, room);
  return {room, padded(call.d)};
}

template <class Real>
RowsAt<Real> keys_in_place(const Call& call, Index sample, Index kv_head, Index j0) noexcept {
  if (!in_place<Real>(call, call.k)) return {nullptr, 0};
  return {reinterpret_cast<const Real*>(call.k.at(sample, kv_head, j0)), call.k.strides[2]};
}

template <class Real>
RowsAt<Real> values_of(const Call& call, Index sample, Index kv_head, Index j0, Index n, Real* room) noexcept {
  if (in_place<Real>(call, call.v) && padded(call.dv) == call.dv)
    return {reinterpret_cast<const Real*>(call.v.at(sample, kv_head, j0)), call.v.strides[2]};
  load_values(call, sample, kv_head, j0, n, n, room);
  return {room, padded(call.dv)};
}

#define ATTEST_INSTANTIATE(Real)                                                                                  \
  template void load_rows(const Call&, const View&, Index, Index, Index, Index, Index, Index, Real*) noexcept;    \
  template void load_columns(const Call&, const View&, Index, Index, Index, Index, Index, Index, Real*) noexcept; \
  template void load_queries(const Call&, Index, Index, Index, Index, Real*) noexcept;                            \
  template void load_keys(const Call&, Index, Index, Index, Index, Index, Real*) noexcept;                        \
  template void load_values(const Call&, Index, Index, Index, Index, Index, Real*) noexcept;                      \
  template RowsAt<Real> queries_of(const Call&, Index, Index, Index, Index, Real*) noexcept;                      \
  template RowsAt<Real> keys_in_place(const Call&, Index, Index, Index) noexcept;                                 \
  template RowsAt<Real> values_of(const Call&, Index, Index, Index, Index, Real*) noexcept;
ATTEST_INSTANTIATE(float)
ATTEST_INSTANTIATE(double)
#undef ATTEST_INSTANTIATE

}  // namespace attest::kernels
