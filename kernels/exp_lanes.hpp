#pragma once
#include "kernels/lanes.hpp"

namespace attest::kernels {

// The larger and the smaller; NaN of x stays.
template <int N>
ATTEST_LANES typename FloatsOf<N>::Type at_least(typename FloatsOf<N>::Type x, typename FloatsOf<N>::Type least) {
#if defined(__AVX512F__)
  using V = typename FloatsOf<N>::Type;
  if constexpr (N == 16) return (V)_mm512_maskz_max_ps(0xffff, (__m512)least, (__m512)x);
#endif
  return x < least ? least : x;
}
template <int N>
ATTEST_LANES typename FloatsOf<N>::Type at_most(typename FloatsOf<N>::Type x, typename FloatsOf<N>::Type most) {
#if defined(__AVX512F__)
  using V = typename FloatsOf<N>::Type;
  if constexpr (N == 16) return (V)_mm512_maskz_min_ps(0xffff, (__m512)most, (__m512)x);
#endif
  return x > most ? most : x;
}
#if defined(__AVX512F__)
// Rounds to the nearest integer, the even one of two.
template <int N>
ATTEST_LANES typename FloatsOf<N>::Type to_integers(typename FloatsOf<N>::Type x) {
  using V = typename FloatsOf<N>::Type;
  if constexpr (N == 16)
    return (V)_mm512_maskz_roundscale_ps(0xffff, (__m512)x, 8);
  else
    return (V)_mm256_round_ps((__m256)x, 8);
}
#endif

// Returns e^x in N lanes of f32: at most 0.8 ulp off for every float, subnormal results included
// (tests/kernels/exp_test.cpp tries them all); exactly 1 at 0, and infinite and 0 past either end. NaN stays.
//
// e^x = 2^n e^r with n = x log2(e) to the nearest integer. ln 2 comes in two parts, the first of 15 bits, so that n
// times it is exact. e^r = 1 + r + r^2 p(r), p of degree 4 by Remez, 2^-28 off. The rounding errors of r and of 1 + r
// are added to the last term, which leaves little but the rounding of the final sum.
// `positive`: whether x may be above 0, by more than a little.
template <int N, bool positive = true>
ATTEST_LANES typename FloatsOf<N>::Type exp_in_lanes(typename FloatsOf<N>::Type x) {
  using V = typename FloatsOf<N>::Type;
  using I = typename IntsOf<N>::Type;
  constexpr float shifter = 0x1.8p23f;  // leaves n in the last bits
  x = at_least<N>(x, V{} - 104.0f);
  if constexpr (positive) x = at_most<N>(x, V{} + 89.0f);
#if defined(__AVX512F__) && defined(__AVX512VL__)
  constexpr bool rounds = N >= 8;
#else
  constexpr bool rounds = false;
#endif
  V n, shifted = {};
  if constexpr (rounds) {
    n = to_integers<N>(x * 0x1.715476p0f);
  } else {
    shifted = x * 0x1.715476p0f + shifter;
    n = shifted - shifter;
  }
  const V high = x - n * 0x1.62e4p-1f, low = n * 0x1.7f7d1cp-20f;
  const V r = high - low, of_r = (high - r) - low;
  const V one_r = 1.0f + r, of_one_r = r - (one_r - 1.0f);
  const V r2 = r * r;
  const V p =
      (0x1.fffffcp-2f + r * 0x1.555492p-3f) + r2 * ((0x1.5558f2p-5f + r * 0x1.123a2p-7f) + r2 * 0x1.6a23cep-10f);
  const V power = one_r + ((of_one_r + of_r) + p * r2);
#if defined(__AVX512F__) && defined(__AVX512VL__)
  if constexpr (N == 16) return (V)_mm512_maskz_scalef_ps(0xffff, (__m512)power, (__m512)n);
  if constexpr (N == 8) return (V)_mm256_scalef_ps((__m256)power, (__m256)n);
#endif
  // Two factors, since 2^n alone may be no float; only the second product rounds.
  const I exponent = std::bit_cast<I>(shifted) - std::bit_cast<I>(V{} + shifter), half = exponent >> 1;
  return power * std::bit_cast<V>((half + 127) << 23) * std::bit_cast<V>((exponent - half + 127) << 23);
}

}  // namespace attest::kernels
