#include "kernels/empty_row.hpp"

#include <limits>
#include <type_traits>

#include "kernels/rows.hpp"

namespace attest::kernels {

template <class Real>
void empty_row(const Call& call, Index sample, Index kv_head, Index length, Real* out) noexcept {
  const Real value = call.empty_row == EmptyRow::nan ? std::numeric_limits<Real>::quiet_NaN() : Real{0};
  std::fill(out, out + call.dv, value);
  if (!is_mean(call.empty_row)) return;
  if (call.empty_row == EmptyRow::mean_all) length = call.lk;
  for (Index c = 0; c < call.dv; ++c) {
    double sum = 0;
    for (Index j = 0; j < length; ++j) {
      double v = 0;
      read_block(call.v.at(sample, kv_head, j, c), call.v.type, {1, 1}, &v);
      sum += v;
    }
    out[c] = static_cast<Real>(sum / static_cast<double>(length));
  }
}

template void empty_row(const Call&, Index, Index, Index, float*) noexcept;
template void empty_row(const Call&, Index, Index, Index, double*) noexcept;

}  // namespace attest::kernels
