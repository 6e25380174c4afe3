#pragma once
#include "oracle/lanes.hpp"

namespace attest::oracle::layer_norm {

// a b, and what it rounds off: Dekker's, by halves of 26 bits, whose products are exact; or the same number by one instruction.
template <class L>
ATTEST_LANE_FN L exact_product(const L& a, const L& b, L& rest) {
#if defined(__AVX512F__)
  if constexpr (L::per_vector == 8) {
    const L product = a * b;
    rest = L::each(
        [](auto x, auto y, auto z) __attribute__((always_inline)) {
          return (typename L::Vector)_mm512_fmsub_pd((__m512d)x, (__m512d)y, (__m512d)z);
        },
        a, b, product);
    return product;
  }
#endif
  const L wide_a = a * 0x1.0000002p27, high_a = wide_a - (wide_a - a), low_a = a - high_a;
  const L wide_b = b * 0x1.0000002p27, high_b = wide_b - (wide_b - b), low_b = b - high_b;
  const L p = a * b;
  rest = ((high_a * high_b - p) + (high_a * low_b + low_a * high_b)) + low_a * low_b;
  return p;
}

// A sum that keeps what its additions round off.
template <class L>
struct TwoSums {
  L sum = L(0), rest = L(0);
  ATTEST_LANE_FN void add(const L& x) {
    const L next = sum + x, part = next - sum;
    rest += (sum - (next - part)) + (x - part);
    sum = next;
  }
  // (x - mean - mean_rest)^2, of the lanes that count.
  template <class... Inside>
  ATTEST_LANE_FN void add_square(const L& x, const L& mean, const L& mean_rest, const Inside&... inside) {
    const L apart = x - mean, part = x - apart;
    // x - mean, and what it rounds off.
    L d = apart, left = ((x - (apart + part)) + (part - mean)) - mean_rest;
    ((d = zero_unless(inside, d), left = zero_unless(inside, left)), ...);
    L lost;
    add(exact_product(d, d, lost));
    rest += lost + left * (2 * d + left);
  }
  ATTEST_LANE_FN void add_square(const L& x) {
    L lost;
    add(exact_product(x, x, lost));
    rest += lost;
  }
  // The lanes of both, in one fixed order: n with n + 4, then with n + 2, then the two that are left.
  ATTEST_LANE_FN void fold(double& total, double& total_rest) const {
    double sums[lane_count], rests[lane_count];
    store(sums, sum);
    store(rests, rest);
    for (int half = lane_count / 2; half > 0; half /= 2)
      for (int n = 0; n < half; ++n) {
        const double x = sums[n + half], next = sums[n] + x, part = next - sums[n];
        rests[n] += rests[n + half] + ((sums[n] - (next - part)) + (x - part));
        sums[n] = next;
      }
    total = sums[0] + rests[0];
    total_rest = rests[0] - (total - sums[0]);
  }
};

}  // namespace attest::oracle::layer_norm
