#include "kernels/truncating.hpp"

#include <algorithm>
#include <cmath>

namespace attest::kernels {

double truncated(Format format, double x) noexcept {
  const double nearest = round_to(format, x);
  if (!(std::fabs(nearest) > std::fabs(x)) || std::isinf(nearest)) return nearest;
  // Between half and three halves of a step below `nearest`, whether normal or not, lies what rounds to its neighbour.
  const double step = 1.25 * std::max(unit_roundoff(format) * std::fabs(nearest), half_smallest_subnormal(format));
  return round_to(format, nearest - std::copysign(step, nearest));
}

void truncating_dot_keys(Format format, const double* q, const double* keys, Index stride, Index d, Index n,
                         double* dots) noexcept {
  std::fill_n(dots, padded(n), 0.0);
  for (Index e = 0; e < d; ++e)
    for (Index j = 0; j < n; ++j) dots[j] = truncated(format, dots[j] + q[e] * keys[e * stride + j]);
}

void truncating_add_weighted(Format format, const double* weights, const std::int32_t* keys, Index count,
                             const double* values, Index stride, Index dv, double* sum) noexcept {
  for (Index entry = 0; entry < count; ++entry) {
    const Index j = keys[entry];
    for (Index c = 0; c < dv; ++c) sum[c] = truncated(format, sum[c] + weights[j] * values[j * stride + c]);
  }
}

void truncating_scale_all(Format format, double factor, double* x, Index n) noexcept {
  for (Index j = 0; j < n; ++j) x[j] = truncated(format, x[j] * factor);
}

double truncating_sum(Format format, double total, const double* x, Index n) noexcept {
  for (Index j = 0; j < n; ++j) total = truncated(format, total + x[j]);
  return total;
}

}  // namespace attest::kernels
