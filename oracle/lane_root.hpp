#pragma once
#include "oracle/lanes.hpp"

namespace attest::oracle {

// Returns the square root of each lane, rounded as IEEE 754 requires.
template <class L>
ATTEST_LANE_FN L root(const L& x) {
  return L::each(
      [](typename L::Vector v) __attribute__((always_inline)) {
#if defined(__AVX512F__)
        if constexpr (L::per_vector == 8) return (typename L::Vector)_mm512_maskz_sqrt_pd(0xff, (__m512d)v);
#endif
#if defined(__AVX__)
        if constexpr (L::per_vector == 4) return (typename L::Vector)_mm256_sqrt_pd((__m256d)v);
#endif
#if defined(__SSE2__)
        if constexpr (L::per_vector == 2) return (typename L::Vector)_mm_sqrt_pd((__m128d)v);
#endif
        typename L::Vector y;
        for (int n = 0; n < L::per_vector; ++n) y[n] = __builtin_sqrt(v[n]);
        return y;
      },
      x);
}

}  // namespace attest::oracle
