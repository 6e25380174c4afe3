#pragma once
#include <cstdint>
#include <utility>

#ifdef __SSE2__
#include <immintrin.h>
#endif

// Eight lanes, held in as many vectors as an instruction set needs for them. Sums run in lanes and are folded in one
// fixed order, so that they have the same bits whatever the instruction set.
namespace attest::oracle {

inline constexpr int lane_count = 8;

// Takes off what the roundings of a quick level may have added to what it must not exceed.
inline constexpr double slack = 1 - 1e-6;

// The least multiple of lane_count from n on: how long an array of whole lanes is.
constexpr std::int64_t padded(std::int64_t n) noexcept { return (n + lane_count - 1) / lane_count * lane_count; }

#define ATTEST_LANE_FN [[gnu::always_inline]] inline

// Eight numbers of type T, N in a vector.
template <class T, int N>
struct Pack {
  typedef T Vector __attribute__((vector_size(N * sizeof(T))));
  typedef T Unaligned __attribute__((vector_size(N * sizeof(T)), aligned(alignof(T)), may_alias));
  using Parts = std::make_integer_sequence<int, lane_count / N>;
  using Bits = Pack<std::int64_t, N>;
  using Floats = Pack<float, N>;
  static constexpr int per_vector = N;

  Vector part[lane_count / N];

  Pack() = default;
  ATTEST_LANE_FN Pack(T x) : Pack(every(x), Parts{}) {}  // NOLINT: every lane, so that scalars mix with lanes
  ATTEST_LANE_FN T operator[](int n) const { return part[n / N][n % N]; }

  // Part by part, since a copy of all would go through memory.
  template <int... I>
  ATTEST_LANE_FN static Pack from(const T* at, std::integer_sequence<int, I...>) {
    Pack x;
    ((x.part[I] = *reinterpret_cast<const Unaligned*>(at + I * N)), ...);
    return x;
  }
  template <int... I>
  ATTEST_LANE_FN void to(T* at, std::integer_sequence<int, I...>) const {
    ((*reinterpret_cast<Unaligned*>(at + I * N) = part[I]), ...);
  }

  // f of the vectors of each part.
  template <class F, class... Packs>
  ATTEST_LANE_FN static Pack each(F f, const Packs&... packs) {
    return [&]<int... I>(std::integer_sequence<int, I...>) __attribute__((always_inline)) {
      const auto at = [&](auto i) __attribute__((always_inline)) { return f(packs.part[i]...); };
      Pack result;
      ((result.part[I] = (Vector)at(std::integral_constant<int, I>{})), ...);
      return result;
    }
    (Parts{});
  }

#define ATTEST_LANE_OPERATOR(result, op)                                                 \
  ATTEST_LANE_FN friend result operator op(const Pack& a, const Pack& b) {               \
    return result::each(                                                                 \
        [](Vector x, Vector y) __attribute__((always_inline)) { return x op y; }, a, b); \
  }
  ATTEST_LANE_OPERATOR(Pack, +)
  ATTEST_LANE_OPERATOR(Pack, -)
  ATTEST_LANE_OPERATOR(Pack, *)
  ATTEST_LANE_OPERATOR(Pack, /)
  ATTEST_LANE_OPERATOR(Bits, <)
  ATTEST_LANE_OPERATOR(Bits, <=)
  ATTEST_LANE_OPERATOR(Bits, >)
  ATTEST_LANE_OPERATOR(Bits, >=)
  ATTEST_LANE_OPERATOR(Bits, ==)
  ATTEST_LANE_OPERATOR(Bits, !=)
  ATTEST_LANE_OPERATOR(Pack, &)
  ATTEST_LANE_OPERATOR(Pack, |)
#undef ATTEST_LANE_OPERATOR
  ATTEST_LANE_FN friend Pack operator~(const Pack& a) {
    return each(
        [](Vector x) __attribute__((always_inline)) { return ~x; }, a);
  }
  ATTEST_LANE_FN friend Pack operator<<(const Pack& a, int bits) {
    return each(
        [bits](Vector x) __attribute__((always_inline)) { return x << bits; }, a);
  }
  ATTEST_LANE_FN Pack& operator+=(const Pack& b) { return *this = *this + b; }
  ATTEST_LANE_FN Pack& operator&=(const Pack& b) { return *this = *this & b; }

 private:
  template <int... I>
  ATTEST_LANE_FN Pack(Vector v, std::integer_sequence<int, I...>) {
    ((part[I] = v), ...);
  }
  ATTEST_LANE_FN static Vector every(T x) {
    if constexpr (N == 2)
      return Vector{x, x};
    else if constexpr (N == 4)
      return Vector{x, x, x, x};
    else
      return Vector{x, x, x, x, x, x, x, x};
  }
};

// The lanes that every machine has; the full formulas use them. The inner loops take the widest (loops.hpp).
using Lanes = Pack<double, 2>;

// The same bits as other numbers, and numbers converted to others.
template <class To, class T, int N>
ATTEST_LANE_FN To bits_as(const Pack<T, N>& x) {
  return To::each(
      [](typename Pack<T, N>::Vector v) __attribute__((always_inline)) { return (typename To::Vector)v; }, x);
}
template <class To, class T, int N>
ATTEST_LANE_FN To converted(const Pack<T, N>& x) {
  return To::each(
      [](typename Pack<T, N>::Vector v)
          __attribute__((always_inline)) { return __builtin_convertvector(v, typename To::Vector); },
      x);
}
template <int N>
ATTEST_LANE_FN Pack<double, N> widen(const Pack<float, N>& x) {
  return converted<Pack<double, N>>(x);
}
template <int N>
ATTEST_LANE_FN Pack<float, N> narrow(const Pack<double, N>& x) {
  return converted<Pack<float, N>>(x);
}

template <class L = Lanes>
ATTEST_LANE_FN L fill(double x) {
  return L(x);
}
template <class L = Lanes, class T>
ATTEST_LANE_FN L load(const T* from) {
  return L::from(from, typename L::Parts{});
}
template <class T, int N>
ATTEST_LANE_FN void store(T* to, const Pack<T, N>& x) {
  x.to(to, typename Pack<T, N>::Parts{});
}
template <class L>
ATTEST_LANE_FN L lane_numbers() {
  constexpr double numbers[lane_count] = {0, 1, 2, 3, 4, 5, 6, 7};
  return load<L>(numbers);
}

// a where the bits of `c` are set, else b. Comparisons of lanes give such bits.
template <int N>
ATTEST_LANE_FN Pack<double, N> select(const Pack<std::int64_t, N>& c, const Pack<double, N>& a,
                                      const Pack<double, N>& b) {
  using L = Pack<double, N>;
  using Bits = typename L::Bits;
  return bits_as<L>((c & bits_as<Bits>(a)) | (~c & bits_as<Bits>(b)));
}
template <int N>
ATTEST_LANE_FN Pack<double, N> zero_unless(const Pack<std::int64_t, N>& c, const Pack<double, N>& a) {
  using L = Pack<double, N>;
  return bits_as<L>(c & bits_as<typename L::Bits>(a));
}
// Return x < y ? x : y and x > y ? x : y of vectors by the one instruction that does so, which compilers emit for
// numbers but not for vectors. They use the masked form with a full mask, since GCC 12 takes arguments of the others
// for uninitialised.
template <class Vector>
ATTEST_LANE_FN Vector lesser(Vector x, Vector y) {
#if defined(__AVX512F__)
  if constexpr (sizeof(Vector) == 64) return (Vector)_mm512_maskz_min_pd(0xff, (__m512d)x, (__m512d)y);
#endif
#if defined(__AVX__)
  if constexpr (sizeof(Vector) == 32) return (Vector)_mm256_min_pd((__m256d)x, (__m256d)y);
#endif
#if defined(__SSE2__)
  if constexpr (sizeof(Vector) == 16) return (Vector)_mm_min_pd((__m128d)x, (__m128d)y);
#endif
  return x < y ? x : y;
}
template <class Vector>
ATTEST_LANE_FN Vector greater(Vector x, Vector y) {
#if defined(__AVX512F__)
  if constexpr (sizeof(Vector) == 64) return (Vector)_mm512_maskz_max_pd(0xff, (__m512d)x, (__m512d)y);
#endif
#if defined(__AVX__)
  if constexpr (sizeof(Vector) == 32) return (Vector)_mm256_max_pd((__m256d)x, (__m256d)y);
#endif
#if defined(__SSE2__)
  if constexpr (sizeof(Vector) == 16) return (Vector)_mm_max_pd((__m128d)x, (__m128d)y);
#endif
  return x > y ? x : y;
}
template <int N>
ATTEST_LANE_FN Pack<double, N> min(const Pack<double, N>& a, const Pack<double, N>& b) {
  return Pack<double, N>::each(
      [](auto x, auto y) __attribute__((always_inline)) { return lesser(x, y); }, a, b);
}
template <int N>
ATTEST_LANE_FN Pack<double, N> max(const Pack<double, N>& a, const Pack<double, N>& b) {
  return Pack<double, N>::each(
      [](auto x, auto y) __attribute__((always_inline)) { return greater(x, y); }, a, b);
}
template <int N>
ATTEST_LANE_FN Pack<double, N> abs(const Pack<double, N>& a) {
  using L = Pack<double, N>;
  return bits_as<L>(bits_as<typename L::Bits>(a) & typename L::Bits(0x7fffffffffffffff));
}
// Folds eight lanes by f, of vectors and of numbers: lane n with n + 4, then n with n + 2, then the two that are left.
template <int N, class F>
ATTEST_LANE_FN double folded(const Pack<double, N>& x, F f) {
  const auto low = [](auto v) __attribute__((always_inline)) { return __builtin_shufflevector(v, v, 0, 1); };
  const auto high = [](auto v) __attribute__((always_inline)) { return __builtin_shufflevector(v, v, 2, 3); };
  const auto last = [&](auto two) __attribute__((always_inline)) { return f(two[0], two[1]); };
  const auto& part = x.part;
  if constexpr (N == 2) {
    return last(f(f(part[0], part[2]), f(part[1], part[3])));
  } else if constexpr (N == 4) {
    const auto four = f(part[0], part[1]);
    return last(f(low(four), high(four)));
  } else {
    const auto four =
        f(__builtin_shufflevector(part[0], part[0], 0, 1, 2, 3), __builtin_shufflevector(part[0], part[0], 4, 5, 6, 7));
    return last(f(low(four), high(four)));
  }
}
template <int N>
ATTEST_LANE_FN double sum(const Pack<double, N>& x) {
  return folded(
      x, [](auto a, auto b) __attribute__((always_inline)) { return a + b; });
}
template <int N>
ATTEST_LANE_FN double largest(const Pack<double, N>& x) {
  return folded(
      x, [](auto a, auto b) __attribute__((always_inline)) { return b > a ? b : a; });
}

// Calls work.operator()<Rows>(first) for `rows` rows in groups of at most `most`, a power of two: as many as registers
// hold.
template <int most, class Work>
ATTEST_LANE_FN void in_groups(std::int64_t rows, const Work& work) {
  std::int64_t first = 0;
  for (; first + most <= rows; first += most) work.template operator()<most>(first);
  if constexpr (most > 1)
    in_groups<most / 2>(
        rows - first, [&]<int Rows>(std::int64_t at)
                          __attribute__((always_inline)) { work.template operator()<Rows>(first + at); });
}

// One bit per lane, set or clear as all bits of the lane are.
template <int N>
ATTEST_LANE_FN std::uint8_t bits_of(const Pack<std::int64_t, N>& set) {
  unsigned bits = 0;
#if defined(__AVX512DQ__)
  if constexpr (N == 8) return _cvtmask8_u32(_mm512_movepi64_mask((__m512i)set.part[0])) & 0xff;
#endif
#if defined(__AVX__)
  if constexpr (N == 4) {
    for (int n = 0; n < 2; ++n) bits |= static_cast<unsigned>(_mm256_movemask_pd((__m256d)set.part[n])) << 4 * n;
    return static_cast<std::uint8_t>(bits);
  }
#endif
#if defined(__SSE2__)
  if constexpr (N == 2) {
    for (int n = 0; n < 4; ++n) bits |= static_cast<unsigned>(_mm_movemask_pd((__m128d)set.part[n])) << 2 * n;
    return static_cast<std::uint8_t>(bits);
  }
#endif
  for (int n = 0; n < lane_count; ++n) bits |= static_cast<unsigned>(set[n] & 1) << n;
  return static_cast<std::uint8_t>(bits);
}

}  // namespace attest::oracle
