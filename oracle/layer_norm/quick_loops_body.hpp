#pragma once
// Bodies of RowLoops, for the files that make it.
#include "oracle/half_gap.hpp"
#include "oracle/layer_norm/quick_loops.hpp"

namespace attest::oracle::layer_norm {

template <class L>
RowSums RowLoops<L>::sums(const double* x, Index n, double pivot) {
  L magnitudes = L(0), most = L(0), total = L(0), squares = L(0);
  const auto take = [&](const L& here, const L& z) __attribute__((always_inline)) {
    const L size = abs(here);
    magnitudes += size;
    most = max(most, size);
    total += z;
    squares += z * z;
  };
  Index i = 0;
  for (; i + lane_count <= n; i += lane_count) {
    const L here = load<L>(x + i);
    take(here, here - pivot);
  }
  if (i < n) {
    const auto inside = lane_numbers<L>() < static_cast<double>(n - i);
    const L here = load<L>(x + i);
    take(zero_unless(inside, here), zero_unless(inside, here - pivot));
  }
  return {sum(magnitudes), attest::oracle::largest(most), sum(total), sum(squares)};
}

template <class L>
bool RowLoops<L>::accept(const AcceptRowRule& rule, const double* x, const double* gamma, const double* beta,
                         const double* got, Index n, std::uint8_t* accepted) {
  unsigned all = 0xff;
  for (Index i = 0; i < n; i += lane_count) {
    const L g = load<L>(gamma + i) + rule.gamma_offset, b = load<L>(beta + i), out = load<L>(got + i);
    const L t = (load<L>(x + i) - rule.mean) * rule.scale, y = t * g + b;
    const L of_t = abs(g) * (rule.constant + abs(t) * rule.proportional);
    const L of_sum = zero_unless(b != L(0), abs(y) * rule.u_affine) - 0x1p-50 * abs(b);
    const L room = of_t + of_sum + half_gap(out, y, rule.u_out, rule.eta_out);
    const auto inside = (abs(out - y) <= room) & (abs(out) <= L(rule.largest_out));
    const auto bits = static_cast<std::uint8_t>(bits_of(inside) | (n - i < lane_count ? 0xff << (n - i) : 0));
    accepted[i / lane_count] = bits;
    all &= bits;
  }
  return all == 0xff;
}

}  // namespace attest::oracle::layer_norm
