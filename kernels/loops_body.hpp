#pragma once
#include <bit>
#include <cstring>
#include <limits>
#include <type_traits>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

#include "kernels/arithmetic.hpp"
#include "kernels/exp_lanes.hpp"
#include "kernels/lanes.hpp"
#include "kernels/loops.hpp"
#include "kernels/rounding.hpp"

// The loops of loops.hpp for one instruction set, for which the file that includes this is compiled. All functions carry
// its name or are inlined always: the linker must not give one set's code to another.
namespace attest::kernels {

template <Isa isa>
struct LoopsOf {
  static constexpr int width = isa == Isa::avx512 ? 16 : isa == Isa::avx2 ? 8 : 4;
  // A block of products: rows, and vectors beside each other. As many sums as registers hold.
  static constexpr int rows_at_once = 4, vectors_at_once = isa == Isa::avx512 ? 4 : 2;

  // Calls work.operator()<N, C>(j) for [0, padded(n)) in C vectors of N lanes.
  template <int C = vectors_at_once, class Work>
  ATTEST_LANES static void in_vectors(Index n, const Work& work) {
    constexpr Index step = C * width;
    const Index end = padded(n);
    Index j = 0;
    for (; j + step <= end; j += step) work.template operator()<width, C>(j);
    for (; j + width <= end; j += width) work.template operator()<width, 1>(j);
    if constexpr (width > padding) {
      if (j < end) work.template operator()<padding, 1>(j);
    }
  }
  // Calls work.operator()<R>(r) for [0, rows) in groups of R.
  template <class Work>
  ATTEST_LANES static void in_rows(Index rows, const Work& work) {
    Index r = 0;
    for (; r + rows_at_once <= rows; r += rows_at_once) work.template operator()<rows_at_once>(r);
    for (; r < rows; ++r) work.template operator()<1>(r);
  }
  // x[j] = change(x[j]).
  template <class Change>
  ATTEST_LANES static void transform(float* x, Index n, const Change& change) {
    const Index end = padded(n);
    Index j = 0;
    for (; j + width <= end; j += width) store_float<width>(x + j, change(load_float<width>(x + j)));
    if constexpr (width > padding) {
      if (j < end) store_float<padding>(x + j, change(load_float<padding>(x + j)));
    }
  }

  static void dots(const float* q, Index q_step, Index rows, const float* keys, Index stride, Index d, Index n,
                   float factor, float* dots, Index dots_step) {
    in_vectors(
        n, [&]<int N, int C>(Index j) __attribute__((always_inline)) {
          in_rows(
              rows, [&]<int R>(Index r) __attribute__((always_inline)) {
                using V = typename FloatsOf<N>::Type;
                V sum[R][C] = {};
                const float* key = keys + j;
                const float* query = q + r * q_step;
                for (Index e = 0; e < d; ++e, key += stride, ++query) {
                  V k[C];
                  for (int c = 0; c < C; ++c) k[c] = load_float<N>(key + c * N);
                  for (int i = 0; i < R; ++i)
                    for (int c = 0; c < C; ++c) sum[i][c] += query[i * q_step] * k[c];
                }
                for (int i = 0; i < R; ++i)
                  for (int c = 0; c < C; ++c)
                    store_float<N>(dots + (r + i) * dots_step + j + c * N, sum[i][c] * factor);
              });
        });
  }

  // G vectors of N keys each, turned in registers.
  template <int G, int N>
  ATTEST_LANES static void dot_turned(const float* q, const float* keys, Index stride, Index d, float factor,
                                      float* dots) {
    using V = typename FloatsOf<N>::Type;
    V sum[G] = {};
    const float* next = keys + G * N * stride;
    Index e = 0;
    for (; e + 4 <= d; e += 4) {
      if (N == width && e % 16 == 0)
        for (int i = 0; i < G * N; ++i) __builtin_prefetch(next + i * stride + e);
      for (int g = 0; g < G; ++g) {
        V column[4];
        turn<N>(keys + g * N * stride + e, stride, column);
        for (int i = 0; i < 4; ++i) sum[g] += q[e + i] * column[i];
      }
    }
    for (; e < d; ++e)
      for (int g = 0; g < G; ++g) {
        V column = {};
        for (int i = 0; i < N; ++i) column[i] = keys[(g * N + i) * stride + e];
        sum[g] += q[e] * column;
      }
    for (int g = 0; g < G; ++g) store_float<N>(dots + g * N, sum[g] * factor);
  }
  static void dot_row(const float* q, const float* keys, Index stride, Index d, Index n, float factor, float* dots) {
    constexpr Index step = 2 * width;
    Index j = 0;
    for (; j + step <= n; j += step) dot_turned<2, width>(q, keys + j * stride, stride, d, factor, dots + j);
    for (; j + 4 <= n; j += 4) dot_turned<1, 4>(q, keys + j * stride, stride, d, factor, dots + j);
    for (; j < n; ++j) {
      float sum = 0;
      for (Index e = 0; e < d; ++e) sum += q[e] * keys[j * stride + e];
      dots[j] = sum * factor;
    }
  }

  static void weigh(const float* weights, Index weights_step, Index rows, Index keys, const float* values, Index stride,
                    Index dv, float* sum, Index sum_step) {
    if (rows == 1) {
      weigh_row(
          weights, keys, values, stride, dv, sum, [](Index j) __attribute__((always_inline)) { return j; });
      return;
    }
    in_vectors(
        dv, [&]<int N, int C>(Index column) __attribute__((always_inline)) {
          in_rows(
              rows, [&]<int R>(Index r) __attribute__((always_inline)) {
                using V = typename FloatsOf<N>::Type;
                V total[R][C];
                float* to = sum + r * sum_step + column;
                for (int i = 0; i < R; ++i)
                  for (int c = 0; c < C; ++c) total[i][c] = load_float<N>(to + i * sum_step + c * N);
                const float* value = values + column;
                const float* weight = weights + r * weights_step;
                for (Index j = 0; j < keys; ++j, value += stride, ++weight) {
                  V v[C];
                  for (int c = 0; c < C; ++c) v[c] = load_float<N>(value + c * N);
                  for (int i = 0; i < R; ++i)
                    for (int c = 0; c < C; ++c) total[i][c] += weight[i * weights_step] * v[c];
                }
                for (int i = 0; i < R; ++i)
                  for (int c = 0; c < C; ++c) store_float<N>(to + i * sum_step + c * N, total[i][c]);
              });
        });
  }

  static void weigh_listed(const float* weights, const std::int32_t* keys, Index count, const float* values,
                           Index stride, Index dv, float* sum) {
    weigh_row(
        weights, count, values, stride, dv,
        sum, [keys](Index entry) __attribute__((always_inline)) { return Index{keys[entry]}; });
  }
  // One row, of which a long one waits for memory: as many columns at once as registers hold, and values from ahead.
  template <class Key>
  ATTEST_LANES static void weigh_row(const float* weights, Index count, const float* values, Index stride, Index dv,
                                     float* sum, const Key& key) {
    constexpr Index ahead = 16;
    in_vectors<8>(
        dv, [&]<int N, int C>(Index column) __attribute__((always_inline)) {
          typename FloatsOf<N>::Type total[C];
          for (int c = 0; c < C; ++c) total[c] = load_float<N>(sum + column + c * N);
          for (Index entry = 0; entry < count; ++entry) {
            const Index j = key(entry);
            const float* value = values + j * stride + column;
            for (int c = 0; c < C * N; c += 16) __builtin_prefetch(value + ahead * stride + c);
            for (int c = 0; c < C; ++c) total[c] += weights[j] * load_float<N>(value + c * N);
          }
          for (int c = 0; c < C; ++c) store_float<N>(sum + column + c * N, total[c]);
        });
  }

  // Eight interleaved sums.
  struct Sums {
    static constexpr int N = width < padding ? width : static_cast<int>(padding);
    typename FloatsOf<N>::Type part[padding / N] = {};

    // Of the elements [j, j + N or width).
    template <int M>
    ATTEST_LANES void add(const typename FloatsOf<M>::Type& x, Index j) {
      if constexpr (M > N) {
        part[0] += low_half<M>(x);
        part[0] += high_half<M>(x);
      } else {
        part[padding == N ? 0 : j / N % (padding / N)] += x;
      }
    }
    ATTEST_LANES float folded() const {
      typename FloatsOf<4>::Type four;
      if constexpr (N == padding)
        four = low_half<8>(part[0]) + high_half<8>(part[0]);
      else
        four = part[0] + part[1];
      return (four[0] + four[2]) + (four[1] + four[3]);
    }
  };
  // Calls work.operator()<N>(j) for [0, padded(n)), at least eight elements after one another.
  template <class Work>
  ATTEST_LANES static void in_eights(Index n, const Work& work) {
    constexpr Index step = width > padding ? width : padding;
    const Index end = padded(n);
    Index j = 0;
    for (; j + step <= end; j += step)
      for (Index at = 0; at < step; at += width) work.template operator()<width>(j + at);
    if constexpr (width > padding) {
      if (j < end) work.template operator()<padding>(j);
    }
  }

  static float powers(const float* x, float shift, Index n, float* powers) { return powers_of(x, shift, n, powers); }
  template <bool positive = true>
  ATTEST_LANES static float powers_of(const float* x, float shift, Index n, float* powers) {
    Sums sums;
    in_eights(
        n, [&]<int N>(Index j) __attribute__((always_inline)) {
          const auto power = exp_in_lanes<N, positive>(load_float<N>(x + j) - shift);
          store_float<N>(powers + j, power);
          sums.template add<N>(power, j);
        });
    return sums.folded();
  }

  static float sum(const float* x, Index n) {
    Sums sums;
    in_eights(
        n, [&]<int N>(Index j) __attribute__((always_inline)) { sums.template add<N>(load_float<N>(x + j), j); });
    return sums.folded();
  }

  // The best of all by `better`, of vectors and of numbers, which gives the first of two unless the second is better.
  template <class Better>
  ATTEST_LANES static float folded(typename FloatsOf<width>::Type best, const Better& better) {
    if constexpr (width == 16) {
      const auto eight = better(low_half<16>(best), high_half<16>(best));
      const auto four = better(low_half<8>(eight), high_half<8>(eight));
      return better(better(four[0], four[1]), better(four[2], four[3]));
    } else if constexpr (width == 8) {
      const auto four = better(low_half<8>(best), high_half<8>(best));
      return better(better(four[0], four[1]), better(four[2], four[3]));
    } else {
      return better(better(best[0], best[1]), better(best[2], best[3]));
    }
  }
  static float largest(const float* x, Index n, bool* above_minus_infinity) {
    typename FloatsOf<width>::Type least = typename FloatsOf<width>::Type{} + std::numeric_limits<float>::infinity();
    const float most = largest_of(x, n, least);
    *above_minus_infinity = all_above(least);
    return most;
  }
  // Whether none of what largest_of() met is -inf.
  ATTEST_LANES static bool all_above(typename FloatsOf<width>::Type least) {
    using V = typename FloatsOf<width>::Type;
    return !any_set<width>(least == V{} - std::numeric_limits<float>::infinity());
  }
  // Lowers `least` to what is smaller in its lane.
  ATTEST_LANES static float largest_of(const float* x, Index n, typename FloatsOf<width>::Type& least) {
    using V = typename FloatsOf<width>::Type;
    const auto larger = [](auto a, auto b) __attribute__((always_inline)) { return b > a ? b : a; };
    V best = V{} - std::numeric_limits<float>::infinity();
    const Index end = padded(n);
    Index j = 0;
    for (; j + width <= end; j += width) {
      const V next = load_float<width>(x + j);
      best = larger(best, next);
      least = next < least ? next : least;
    }
    if constexpr (width > padding) {
      if (j < end) {  // eight twice
        const auto half = load_float<padding>(x + j);
        const V next = both(half, half, std::make_integer_sequence<int, width>{});
        best = larger(best, next);
        least = next < least ? next : least;
      }
    }
    return folded(best, larger);
  }

  static bool soften_rows(const float* s, Index step, Index first, Index last, Index n, float* largest, float* total,
                          float* factor, float* weights) {
    constexpr float infinity = std::numeric_limits<float>::infinity();
    using V = typename FloatsOf<width>::Type;
    V least = V{} + infinity;
    const Index begin = first / width * width, end = (last + width - 1) / width * width;
    for (Index r = begin; r < end; ++r) factor[r] = -infinity;
    for (Index r = first; r < last; ++r) factor[r] = largest_of(s + r * step, n, least);
    for (Index r = begin; r < end; r += width) {
      const V before = load_float<width>(largest + r), here = load_float<width>(factor + r), one = V{} + 1.0f;
      const V now = here > before ? here : before;
      V by = exp_in_lanes<width>(before - now);
      by = here > before ? by : one;
      by = before > V{} - infinity ? by : one;
      store_float<width>(largest + r, now);
      store_float<width>(factor + r, by);
      store_float<width>(total + r, load_float<width>(total + r) * by);
    }
    for (Index r = first; r < last; ++r) {
      const float shift = largest[r] == -infinity ? 0 : largest[r];
      total[r] += powers_of<false>(s + r * step, shift, n, weights + r * step);
    }
    return all_above(least);
  }

  static bool soften_columns(float* s, Index step, Index keys, Index rows, bool divide, float* shift, float* sum) {
    constexpr float infinity = std::numeric_limits<float>::infinity();
    bool open = true;
    in_eights(
        rows, [&]<int N>(Index r) __attribute__((always_inline)) {
          using V = typename FloatsOf<N>::Type;
          V best = V{} - infinity, least = V{} + infinity;
          for (Index j = 0; j < keys; ++j) {
            const V x = load_float<N>(s + j * step + r);
            best = x > best ? x : best;
            least = x < least ? x : least;
          }
          open = open && !any_set<N>(least == V{} - infinity);
          best = best == V{} - infinity ? V{} : best;
          V part[padding] = {};
          for (Index j = 0; j < keys; ++j) {
            const V power = exp_in_lanes<N, false>(load_float<N>(s + j * step + r) - best);
            store_float<N>(s + j * step + r, power);
            part[j % padding] += power;
          }
          const V total = ((part[0] + part[4]) + (part[2] + part[6])) + ((part[1] + part[5]) + (part[3] + part[7]));
          store_float<N>(shift + r, best);
          store_float<N>(sum + r, total);
          for (Index j = 0; j < keys && divide; ++j)
            store_float<N>(s + j * step + r, load_float<N>(s + j * step + r) / total);
        });
    return open;
  }

  static void scale(float factor, float* x, Index n) {
    transform(
        x, n, [factor](auto y) __attribute__((always_inline)) { return y * factor; });
  }
  static void divide(float divisor, float* x, Index n) {
    transform(
        x, n, [divisor](auto y) __attribute__((always_inline)) { return y / divisor; });
  }
  static void round_f16(float* x, Index n) { transform(x, n, ToF16{}); }
  static void round_bf16(float* x, Index n) { transform(x, n, ToBf16{}); }
  static void round_tf32(float* x, Index n) { transform(x, n, ToTf32{}); }

  static bool finite(const float* x, Index n) {
    Index j = 0;
    typename IntsOf<width>::Type failed = {};
    for (; j + width <= n; j += width) {
      const auto bits = std::bit_cast<typename IntsOf<width>::Type>(load_float<width>(x + j));
      failed |= (bits & 0x7fffffff) >= 0x7f800000;
    }
    if (any_set<width>(failed)) return false;
    for (; j < n; ++j)
      if ((std::bit_cast<std::int32_t>(x[j]) & 0x7fffffff) >= 0x7f800000) return false;
    return true;
  }
  // Four columns of `lanes` rows: each of 16 bytes of a vector takes four rows, and turns them by itself.
  template <int lanes>
  ATTEST_LANES static void turn(const float* from, Index row_stride, typename FloatsOf<lanes>::Type* columns) {
    using V = typename FloatsOf<lanes>::Type;
    V a[4];
    for (int i = 0; i < 4; ++i) a[i] = gathered<lanes>(from + i * row_stride, 4 * row_stride);
    const V low01 = unpack_low<lanes>(a[0], a[1]), low23 = unpack_low<lanes>(a[2], a[3]);
    const V high01 = unpack_high<lanes>(a[0], a[1]), high23 = unpack_high<lanes>(a[2], a[3]);
    columns[0] = pairs_low<lanes>(low01, low23);
    columns[1] = pairs_high<lanes>(low01, low23);
    columns[2] = pairs_low<lanes>(high01, high23);
    columns[3] = pairs_high<lanes>(high01, high23);
  }
  template <int lanes>
  ATTEST_LANES static void turn_all(const float* from, Index row_stride, Index columns, Index step, float* out) {
    // The rows after these, a line of each at a time: there are more of them than the machine follows by itself.
    const float* next = from + lanes * row_stride;
    Index c = 0;
    for (; c + 4 <= columns; c += 4) {
      if (lanes == width && c % 16 == 0)
        for (int i = 0; i < lanes; ++i) __builtin_prefetch(next + i * row_stride + c);
      typename FloatsOf<lanes>::Type column[4];
      turn<lanes>(from + c, row_stride, column);
      for (int i = 0; i < 4; ++i) store_float<lanes>(out + (c + i) * step, column[i]);
    }
    for (; c < columns; ++c)
      for (int r = 0; r < lanes; ++r) out[c * step + r] = from[r * row_stride + c];
  }
  static void columns(const float* from, Index row_stride, Index rows, Index columns, Index step, float* out) {
    Index r = 0;
    for (; r + width <= rows; r += width) turn_all<width>(from + r * row_stride, row_stride, columns, step, out + r);
    if constexpr (width > 4)
      for (; r + 4 <= rows; r += 4) turn_all<4>(from + r * row_stride, row_stride, columns, step, out + r);
    for (; r < rows; ++r)
      for (Index c = 0; c < columns; ++c) out[c * step + r] = from[r * row_stride + c];
  }

  template <class Decode>
  ATTEST_LANES static void widen(const std::uint16_t* from, Index n, float* to, const Decode& decode) {
    Index j = 0;
    constexpr Index ahead = 2048;  // rows often lie behind each other
    for (; j + width <= n; j += width) {
      if (j % 32 == 0) __builtin_prefetch(from + j + ahead);
      store_float<width>(to + j, decode(load_halves<width>(from + j)));
    }
    if constexpr (width > 4)
      for (; j + 4 <= n; j += 4) store_float<4>(to + j, decode(load_halves<4>(from + j)));
    for (; j < n; ++j) {
      const typename UnsignedsOf<4>::Type one = {from[j]};
      to[j] = decode(one)[0];
    }
  }
  static void widen_f16(const std::uint16_t* from, Index n, float* to) {
    widen(
        from, n, to, [](auto bits) __attribute__((always_inline)) { return from_f16(bits); });
  }
  static void widen_bf16(const std::uint16_t* from, Index n, float* to) {
    widen(
        from, n, to, [](auto bits) __attribute__((always_inline)) { return bits_as_floats(bits << 16); });
  }

  template <class Encode>
  ATTEST_LANES static void narrow(const float* from, Index n, std::uint16_t* to, const Encode& encode) {
    Index j = 0;
    for (; j + width <= n; j += width)
      store_halves<width>(to + j,
                          encode(std::bit_cast<typename UnsignedsOf<width>::Type>(load_float<width>(from + j))));
    for (; j < n; ++j) {
      const typename UnsignedsOf<4>::Type one = {std::bit_cast<std::uint32_t>(from[j])};
      to[j] = static_cast<std::uint16_t>(encode(one)[0]);
    }
  }
  static void narrow_f16(const float* from, Index n, std::uint16_t* to) {
    narrow(
        from, n, to, [](auto bits) __attribute__((always_inline)) { return to_f16(bits); });
  }
  static void narrow_bf16(const float* from, Index n, std::uint16_t* to) {
    narrow(
        from, n, to, [](auto bits) __attribute__((always_inline)) { return to_bf16(bits); });
  }
};

template <Isa isa>
constexpr Loops loops_for() {
  using L = LoopsOf<isa>;
  return {L::dots,        L::dot_row,        L::weigh,     L::weigh_listed, L::powers,     L::largest,    L::sum,
          L::soften_rows, L::soften_columns, L::scale,     L::divide,       L::finite,     L::round_f16,  L::round_bf16,
          L::round_tf32,  L::columns,        L::widen_f16, L::widen_bf16,   L::narrow_f16, L::narrow_bf16};
}

}  // namespace attest::kernels
