#include "kernels/products.hpp"

#include <array>
#include <type_traits>

#include "kernels/arithmetic.hpp"
#include "kernels/loops.hpp"
#include "kernels/scores.hpp"

namespace attest::kernels {

template <class Real>
void scaled_dots(const Call& call, const Real* queries, Index q_step, Index rows, const Real* keys, Index n, Real* dots,
                 Index dots_step) noexcept {
  if constexpr (std::is_same_v<Real, float>) {
    if (call[Stage::qk] == Format::f32) {
      const bool scaled = call[Stage::scale] == Format::f32 && call[Stage::score] == Format::f32;
      const float factor = scaled ? static_cast<float>(call.scale) : 1;
      loops().dots(queries, q_step, rows, keys, padded(n), call.d, n, factor, dots, dots_step);
      for (Index r = 0; r < rows && !scaled; ++r) apply_scale(call, dots + r * dots_step, n);
      return;
    }
  }
  for (Index r = 0; r < rows; ++r) {
    dot_keys(call[Stage::qk], queries + r * q_step, keys, padded(n), call.d, n, dots + r * dots_step);
    apply_scale(call, dots + r * dots_step, n);
  }
}

bool scaled_dots_in_place(const Call& call, Index sample, Index kv_head, Index j0, Index n, const float* query,
                          float* dots) noexcept {
  for (const Stage stage : {Stage::qk, Stage::scale, Stage::score})
    if (call[stage] != Format::f32) return false;
  const RowsAt<float> keys = keys_in_place<float>(call, sample, kv_head, j0);
  if (keys.data == nullptr) return false;
  loops().dot_row(query, keys.data, keys.step, call.d, n, static_cast<float>(call.scale), dots);
  return true;
}

namespace {

bool all_finite(const RowsAt<float>& values, Index n, Index dv) noexcept {
  // Where they were brought in, with what lies between them: at most one register, mostly finite, too.
  if ((values.step == dv || values.step == padded(dv)) && loops().finite(values.data, (n - 1) * values.step + dv))
    return true;
  for (Index j = 0; j < n; ++j)
    if (!loops().finite(values.data + j * values.step, dv)) return false;
  return true;
}

}  // namespace

template <class Real>
void weigh_rows(const Call& call, const Real* weights, const Real* scores, Index step, Index rows, Index n,
                const RowsAt<Real>& values, bool all_open, Real* output) noexcept {
  const Index out_step = padded(call.dv);
  if constexpr (std::is_same_v<Real, float>) {
    // A weight of 0 may stand for a closed key: it adds nothing to a sum that began with +0, unless its value is
    // infinite or NaN.
    if (call[Stage::pv] == Format::f32 && (all_open || all_finite(values, n, call.dv)))
      return loops().weigh(weights, step, rows, n, values.data, values.step, call.dv, output, out_step);
  }
  std::array<std::int32_t, 128> open;
  for (Index r = 0; r < rows; ++r) {
    const Index count = open_keys(scores + r * step, n, open.data());
    add_weighted(call[Stage::pv], weights + r * step, open.data(), count, values.data, values.step, call.dv,
                 output + r * out_step);
  }
}

#define ATTEST_INSTANTIATE(Real)                                                                                  \
  template void scaled_dots(const Call&, const Real*, Index, Index, const Real*, Index, Real*, Index) noexcept;   \
  template void weigh_rows(const Call&, const Real*, const Real*, Index, Index, Index, const RowsAt<Real>&, bool, \
                           Real*) noexcept;
ATTEST_INSTANTIATE(float)
ATTEST_INSTANTIATE(double)
#undef ATTEST_INSTANTIATE

}  // namespace attest::kernels
