#pragma once
#include <utility>

#include "oracle/lanes.hpp"

namespace attest::oracle::layer_norm {

// Returns a b and writes its rounding error to `rest`: by Dekker's product of halves of 26 bits, whose products are
// exact, or by one fused multiply-add, which gives the same number.
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
    const auto halves = [](auto v) __attribute__((always_inline)) {
      if constexpr (sizeof(v) == 64)
        return std::pair(__builtin_shufflevector(v, v, 0, 1, 2, 3), __builtin_shufflevector(v, v, 4, 5, 6, 7));
      else if constexpr (sizeof(v) == 32)
        return std::pair(__builtin_shufflevector(v, v, 0, 1), __builtin_shufflevector(v, v, 2, 3));
      else
        return std::pair(double{v[0]}, double{v[1]});
    };
    const auto joined = [](auto a, auto b, auto rest_a, auto rest_b) __attribute__((always_inline)) {
      const auto next = a + b, part = next - a;
      return std::pair(next, rest_a + (rest_b + ((a - (next - part)) + (b - part))));
    };
    const auto of_vector = [&](auto s, auto r, auto self) __attribute__((always_inline)) {
      const auto [low, high] = halves(s);
      const auto [rest_low, rest_high] = halves(r);
      const auto [next, rest_next] = joined(low, high, rest_low, rest_high);
      if constexpr (sizeof(next) == sizeof(double))
        return std::pair(next, rest_next);
      else
        return self(next, rest_next, self);
    };
    std::pair<double, double> two;
    const auto &s = sum.part, &r = rest.part;
    if constexpr (L::per_vector == 8) {
      two = of_vector(s[0], r[0], of_vector);
    } else if constexpr (L::per_vector == 4) {
      const auto [next, rest_next] = joined(s[0], s[1], r[0], r[1]);
      two = of_vector(next, rest_next, of_vector);
    } else {
      const auto [even, rest_even] = joined(s[0], s[2], r[0], r[2]);
      const auto [odd, rest_odd] = joined(s[1], s[3], r[1], r[3]);
      const auto [next, rest_next] = joined(even, odd, rest_even, rest_odd);
      two = of_vector(next, rest_next, of_vector);
    }
    total = two.first + two.second;
    total_rest = two.second - (total - two.first);
  }
};

}  // namespace attest::oracle::layer_norm
