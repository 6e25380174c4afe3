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
  const double half = rule.u_out * slack, least_half = rule.eta_out * slack;
  unsigned all = 0xff;
  for (Index i = 0; i < n; i += lane_count) {
    const L g = load<L>(gamma + i), b = load<L>(beta + i), out = load<L>(got + i);
    const L p = (load<L>(x + i) - rule.mean) * (g * rule.scale), y = p + b, off = abs(out - y);
    const L of_t = abs(g) * rule.constant + abs(p) * rule.proportional;
    // Of a power of two half the gap below it, so that no side has to be looked at. An infinity has no gap, and is left.
    const L below = bits_as<L>((bits_as<typename L::Bits>(max(abs(out), L(0x1p-1000))) - 1) & 0x7ff0000000000000);
    const auto surely = off <= of_t + (max(below * half, L(least_half)) - rule.largest_beta_error);
    auto bits = static_cast<std::uint8_t>(bits_of(surely) | (n - i < lane_count ? 0xff << (n - i) : 0));
    if (bits != 0xff) {
      const L of_sum = zero_unless(b != L(0), abs(y) * rule.u_affine) - 0x1p-50 * abs(b);
      const L room = of_t + of_sum + half_gap(out, y, rule.u_out, rule.eta_out);
      bits |= bits_of((off <= room) & (abs(out) <= L(rule.largest_out)));
    }
    accepted[i / lane_count] = bits;
    all &= bits;
  }
  return all == 0xff;
}

}  // namespace attest::oracle::layer_norm
