#pragma once
#include <bit>
#include <cstdint>
#include <cstring>
#include <utility>

#include "core/format.hpp"

#if defined(__SSE2__)
#include <immintrin.h>
#endif

// Vectors of N floats, N being the number that an instruction set's registers hold, and the operations of
// loops_body.hpp on them. All of it is inlined always, since files compiled for different sets share these names.
namespace attest::kernels {

#define ATTEST_LANES [[gnu::always_inline]] inline

template <int N>
struct FloatsOf {
  typedef float Type __attribute__((vector_size(4 * N)));
  typedef float Unaligned __attribute__((vector_size(4 * N), aligned(1), may_alias));
};
template <int N>
struct IntsOf {
  typedef std::int32_t Type __attribute__((vector_size(4 * N)));
};
template <int N>
struct UnsignedsOf {
  typedef std::uint32_t Type __attribute__((vector_size(4 * N)));
};
template <int N>
struct HalvesOf {
  typedef std::uint16_t Type __attribute__((vector_size(2 * N)));
  typedef std::uint16_t Unaligned __attribute__((vector_size(2 * N), aligned(1), may_alias));
};
// The number of lanes of a vector of four-byte numbers.
template <class V>
inline constexpr int lanes_of = static_cast<int>(sizeof(V) / 4);

template <int N>
ATTEST_LANES typename FloatsOf<N>::Type load_float(const float* from) {
  return *reinterpret_cast<const typename FloatsOf<N>::Unaligned*>(from);
}
template <int N>
ATTEST_LANES void store_float(float* to, typename FloatsOf<N>::Type x) {
  *reinterpret_cast<typename FloatsOf<N>::Unaligned*>(to) = x;
}
template <int N>
ATTEST_LANES typename UnsignedsOf<N>::Type load_halves(const std::uint16_t* from) {
  const typename HalvesOf<N>::Type halves = *reinterpret_cast<const typename HalvesOf<N>::Unaligned*>(from);
  return __builtin_convertvector(halves, typename UnsignedsOf<N>::Type);
}
template <int N>
ATTEST_LANES void store_halves(std::uint16_t* to, typename UnsignedsOf<N>::Type x) {
  *reinterpret_cast<typename HalvesOf<N>::Unaligned*>(to) = __builtin_convertvector(x, typename HalvesOf<N>::Type);
}
template <class U>
ATTEST_LANES auto bits_as_floats(U bits) {
  return std::bit_cast<typename FloatsOf<lanes_of<U>>::Type>(bits);
}

// Lanes of a, and of b behind them, in the order that `at` gives for each lane.
template <int N, class At, class V, int... I>
ATTEST_LANES V chosen_lanes(V a, V b, std::integer_sequence<int, I...>) {
  return __builtin_shufflevector(a, b, At::of(I, N)...);
}
#define ATTEST_CHOICE(name, Name, expression)                                 \
  struct Name {                                                               \
    static constexpr int of(int i, int n) { return expression; }              \
  };                                                                          \
  template <int N, class V>                                                   \
  ATTEST_LANES V name(V a, V b) {                                             \
    return chosen_lanes<N, Name>(a, b, std::make_integer_sequence<int, N>{}); \
  }
// Within each 16 bytes: a0 b0 a1 b1; a2 b2 a3 b3; a0 a1 b0 b1; a2 a3 b2 b3.
ATTEST_CHOICE(unpack_low, UnpackLow, (i / 4 * 4 + i % 4 / 2) + (i % 2) * n)
ATTEST_CHOICE(unpack_high, UnpackHigh, (i / 4 * 4 + 2 + i % 4 / 2) + (i % 2) * n)
ATTEST_CHOICE(pairs_low, PairsLow, (i / 4 * 4 + i % 2) + (i % 4 / 2) * n)
ATTEST_CHOICE(pairs_high, PairsHigh, (i / 4 * 4 + 2 + i % 2) + (i % 4 / 2) * n)
#undef ATTEST_CHOICE

template <int first, class V, int... I>
ATTEST_LANES auto some_lanes(V x, std::integer_sequence<int, I...>) {
  return __builtin_shufflevector(x, x, (first + I)...);
}
template <int N>
ATTEST_LANES auto low_half(typename FloatsOf<N>::Type x) {
  return some_lanes<0>(x, std::make_integer_sequence<int, N / 2>{});
}
template <int N>
ATTEST_LANES auto high_half(typename FloatsOf<N>::Type x) {
  return some_lanes<N / 2>(x, std::make_integer_sequence<int, N / 2>{});
}
template <class V, int... I>
ATTEST_LANES auto both(V a, V b, std::integer_sequence<int, I...>) {
  return __builtin_shufflevector(a, b, I...);
}
// Four floats each from `from`, from + step, and so on, in N lanes.
template <int N>
ATTEST_LANES typename FloatsOf<N>::Type gathered(const float* from, std::int64_t step) {
  if constexpr (N == 4) {
    return load_float<4>(from);
  } else {
    return both(gathered<N / 2>(from, step), gathered<N / 2>(from + N / 8 * step, step),
                std::make_integer_sequence<int, N>{});
  }
}

// Tells whether some lane's bits are set.
template <int N>
ATTEST_LANES bool any_set(typename IntsOf<N>::Type x) {
#if defined(__AVX512F__)
  if constexpr (N == 16) return _mm512_test_epi32_mask((__m512i)x, (__m512i)x) != 0;
#endif
#if defined(__AVX__)
  if constexpr (N == 8) return _mm256_movemask_ps((__m256)x) != 0;
#endif
#if defined(__SSE2__)
  if constexpr (N == 4) return _mm_movemask_ps((__m128)x) != 0;
#endif
  std::int32_t any = 0;
  for (int i = 0; i < N; ++i) any |= x[i];
  return any != 0;
}

// decoded() and encoded() of core/format.hpp in lanes, of a format of 16 bits and less.
template <Format format, class U>
ATTEST_LANES auto from_code(U bits) {
  constexpr const FormatTraits& row = traits(format);
  if constexpr (row.begins_f32()) {
    return bits_as_floats(bits << (32 - row.bits));
  } else {
    constexpr int up = 24 - row.precision;
    constexpr auto sign = static_cast<std::uint32_t>(row.sign);
    // A product moves the exponent, which makes subnormals right too.
    constexpr auto scale = static_cast<float>(two_to_the(row.min_exponent - min_exponent(Format::f32)));
    constexpr std::uint32_t beyond = row.has_infinity() ? 0x7f800000u : 0x7fc00000u;
    const U magnitude = (bits & (sign - 1)) << up;
    const U finite = std::bit_cast<U>(bits_as_floats(magnitude) * scale);
    const U special = magnitude > (static_cast<std::uint32_t>(row.largest_code) << up) ? U{} + beyond : U{};
    return bits_as_floats(finite | special | (bits & sign) << (32 - row.bits));
  }
}
template <Format format, class U>
ATTEST_LANES U to_code(U bits) {
  constexpr const FormatTraits& row = traits(format);
  constexpr int down = 24 - row.precision;
  const U magnitude = bits & 0x7fffffffu;
  if constexpr (row.begins_f32() && row.keeps_payload) {
    const U rounded = (bits + ((1u << (down - 1)) - 1) + (bits >> down & 1u)) >> down;
    return magnitude > 0x7f800000u ? bits >> down | 1u << (row.precision - 2) : rounded;
  } else {
    constexpr auto shifter = static_cast<float>(two_to_the(23 + row.min_exponent - row.precision + 1));
    constexpr std::uint32_t bias = static_cast<std::uint32_t>(127 + row.min_exponent - 1) << 23;
    constexpr auto smallest = std::bit_cast<std::uint32_t>(static_cast<float>(row.smallest_normal)),
                   // the tie above the largest number, which an even code keeps
        tie = std::bit_cast<std::uint32_t>(static_cast<float>(row.overflow_threshold)),
                   past = tie + (row.largest_code & 1 ? 0 : 1);
    const U subnormal = std::bit_cast<U>(bits_as_floats(magnitude) + shifter) - std::bit_cast<std::uint32_t>(shifter);
    U code = (magnitude + ((1u << (down - 1)) - 1) + (magnitude >> down & 1u) - bias) >> down;
    code = magnitude < smallest ? subnormal : code;
    code = magnitude >= past ? U{} + static_cast<std::uint32_t>(row.past_code) : code;
    code = magnitude > 0x7f800000u ? U{} + static_cast<std::uint32_t>(row.nan_code) : code;
    return code | (bits >> (32 - row.bits) & static_cast<std::uint32_t>(row.sign));
  }
}

}  // namespace attest::kernels
