#pragma once
#include <cstdint>

#include "kernels/arithmetic.hpp"
#include "kernels/lanes.hpp"
#include "kernels/loops.hpp"

// Products and the turning of rows into columns, of loops_body.hpp.
namespace attest::kernels {

// Floats in a register.
template <Isa isa>
inline constexpr int width_of = isa == Isa::avx512 ? 16
                                : isa == Isa::avx2 ? 8
                                                   : 4;

template <Isa isa>
struct ProductsOf {
  static constexpr int width = width_of<isa>;
  // A block of products: rows, and vectors beside each other. As many sums as registers hold.
  static constexpr int rows_at_once = 4, vectors_at_once = isa == Isa::avx512 ? 4 : 2;
  // Where a product takes a number of a row for all lanes from memory, as AVX-512's do, blocks of one vector are
  // faster, if there are as many rows: one load feeds each product and nothing waits for a number to be spread over a
  // register.
  static constexpr int tall_most = isa == Isa::avx512 ? 16 : 0, tall_least = 8;
  // One row waits for memory: it asks the second cache for the keys this far ahead.
  static constexpr Index keys_ahead = 64;

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
  // Calls work.operator()<R, N, C>(r, j) for rows [first, rows) and columns [0, padded(n)) in blocks of R rows and C
  // vectors of N lanes.
  template <int tall = tall_most, class Work>
  ATTEST_LANES static void in_blocks(Index rows, Index n, const Work& work, Index first = 0) {
    if constexpr (tall >= tall_least) {
      const Index end = first + (rows - first) / tall * tall;
      if (first < end)
        in_vectors<1>(
            n, [&]<int N, int C>(Index j) __attribute__((always_inline)) {
              for (Index r = first; r < end; r += tall) work.template operator()<tall, N, C>(r, j);
            });
      in_blocks<tall / 2>(rows, n, work, end);
    } else if (first < rows) {
      in_vectors(
          n, [&]<int N, int C>(Index j) __attribute__((always_inline)) {
            Index r = first;
            for (; r + rows_at_once <= rows; r += rows_at_once) work.template operator()<rows_at_once, N, C>(r, j);
            for (; r < rows; ++r) work.template operator()<1, N, C>(r, j);
          });
    }
  }
  // The sums of one such block: sum[i][c] += factors[i * factors_step + e] times vector c of columns + e * stride, for
  // e in [0, count).
  template <int R, int N, int C>
  ATTEST_LANES static void add_products(const float* factors, Index factors_step, const float* columns, Index stride,
                                        Index count, typename FloatsOf<N>::Type (&sum)[R][C]) {
    for (Index e = 0; e < count; ++e, columns += stride, ++factors) {
      typename FloatsOf<N>::Type column[C];
      for (int c = 0; c < C; ++c) column[c] = load_float<N>(columns + c * N);
      for (int i = 0; i < R; ++i)
        for (int c = 0; c < C; ++c) sum[i][c] += factors[i * factors_step] * column[c];
    }
  }
  static void dots(const float* q, Index q_step, Index rows, const float* keys, Index stride, Index d, Index n,
                   float factor, float* dots, Index dots_step) {
    in_blocks(
        rows, n, [&]<int R, int N, int C>(Index r, Index j) __attribute__((always_inline)) {
          using V = typename FloatsOf<N>::Type;
          V sum[R][C] = {};
          add_products<R, N, C>(q + r * q_step, q_step, keys + j, stride, d, sum);
          for (int i = 0; i < R; ++i)
            for (int c = 0; c < C; ++c) store_float<N>(dots + (r + i) * dots_step + j + c * N, sum[i][c] * factor);
        });
  }

  // G vectors of N keys each, turned in registers.
  template <int G, int N>
  ATTEST_LANES static void dot_turned(const float* q, const float* keys, Index stride, Index d, float factor,
                                      float* dots) {
    using V = typename FloatsOf<N>::Type;
    V sum[G] = {};
    // Line by line as they lie: in that order memory gives them twice as fast as a line of each key in turn.
    const float* next = keys + keys_ahead * stride;
    Index ahead = 0;
    Index e = 0;
    for (; e + 4 <= d; e += 4) {
      for (int i = 0; i < G * N / 4 && N == width; ++i) {
        __builtin_prefetch(next + ahead, 0, 2);
        ahead += 16;
        if (ahead >= d) {
          ahead = 0;
          next += stride;
        }
      }
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
    in_blocks(
        rows, dv, [&]<int R, int N, int C>(Index r, Index column) __attribute__((always_inline)) {
          using V = typename FloatsOf<N>::Type;
          V total[R][C];
          float* to = sum + r * sum_step + column;
          for (int i = 0; i < R; ++i)
            for (int c = 0; c < C; ++c) total[i][c] = load_float<N>(to + i * sum_step + c * N);
          add_products<R, N, C>(weights + r * weights_step, weights_step, values + column, stride, keys, total);
          for (int i = 0; i < R; ++i)
            for (int c = 0; c < C; ++c) store_float<N>(to + i * sum_step + c * N, total[i][c]);
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
    in_vectors<8>(
        dv, [&]<int N, int C>(Index column) __attribute__((always_inline)) {
          typename FloatsOf<N>::Type total[C];
          for (int c = 0; c < C; ++c) total[c] = load_float<N>(sum + column + c * N);
          for (Index entry = 0; entry < count; ++entry) {
            const Index j = key(entry);
            const float* value = values + j * stride + column;
            for (int c = 0; c < C * N; c += 16) __builtin_prefetch(value + keys_ahead * stride + c, 0, 2);
            for (int c = 0; c < C; ++c) total[c] += weights[j] * load_float<N>(value + c * N);
          }
          for (int c = 0; c < C; ++c) store_float<N>(sum + column + c * N, total[c]);
        });
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
};

}  // namespace attest::kernels
