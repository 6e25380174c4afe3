// The inputs of the quick levels: keys transposed, values, queries and outputs as doubles in whole lanes.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "oracle/decode.hpp"
#include "oracle/lanes.hpp"
#include "oracle/quick.hpp"
#include "oracle/quick_scratch.hpp"

namespace attest::oracle {
namespace {

constexpr Index most_together = 4096;

}  // namespace

// Reads elements (b, h, first..first+rows, 0..count), a row `stride` doubles from the one before, and writes zeros
// behind it up to whole lanes. A store of lanes at once can be loaded at once: lanes put together from single numbers
// cannot, before these have left the processor.
void Quick::read_rows(const attest_tensor& t, Index b, Index h, Index first, Index rows, Index count, double* to,
                      Index stride) {
  if (count == 0) return;
  if (t.strides[3] == 1)
    return decode_padded({t.dtype, element_at(t, b, h, first, 0), rows, count, t.strides[2]}, to, stride);
  for (Index i = first; i < first + rows; ++i, to += stride) {
    std::fill_n(to + padded(count) - lane_count, lane_count, 0.0);
    read_row(t, b, h, i, count, to);
  }
}

// One behind the other. Each takes whole cache lines, bits as if they were doubles.
void Quick::place_buffers() {
  const Index by_keys = max_rows_ * stride_, by_columns = max_rows_ * columns_, tile = tile_keys_ * columns_;
  const Index together = padded(std::min(most_together, tile_keys_ * call_.d));
  const Index queries = max_rows_ * d_stride_, transposed = call_.d * kt_stride_, bits = padded((by_columns + 63) / 64);
  const Index doubles = bits + queries + transposed + together + 4 * stride_ + 3 * by_keys + 3 * by_columns + tile;
  auto* next = reinterpret_cast<double*>(scratch_.room(doubles / lane_count));
  const auto take = [&next](Index count) { return std::exchange(next, next + count); };
  q_ = take(queries);
  kt_ = take(transposed);
  together_ = take(together);
  bias_ = take(stride_);
  open_ = take(stride_);
  lo_ = take(stride_);
  hi_ = take(stride_);
  p_ = take(by_keys);
  d_ = take(by_keys);
  m_ = take(by_keys);
  y_ = take(by_columns);
  reach_ = take(by_columns);
  got_ = take(by_columns);
  v_ = take(tile);
  bits_ = reinterpret_cast<std::uint8_t*>(take(bits));
}

// The same of any rows.
void Quick::read_rows(const attest_tensor& t, std::span<const RowIndex> rows, Index count, double* to, Index stride) {
  const RowIndex &first = rows.front(), &last = rows.back();
  const auto n = static_cast<Index>(rows.size());
  if (last.h == first.h && last.i == first.i + n - 1)
    return read_rows(t, first.b, first.h, first.i, n, count, to, stride);
  for (const RowIndex& row : rows) {
    read_rows(t, row.b, row.h, row.i, 1, count, to, stride);
    to += stride;
  }
}

// K of one tile, transposed. Blocks of keys keep the strided reads in cache.
void Quick::load_keys(Index tile) {
  if (keys_tile_ == tile) return;
  keys_tile_ = tile;
  const Index count = tile_size(tile), first = tile * tile_keys_, whole = padded(count);
  if (call_.k.strides[2] == 1) {
    decode_padded({call_.k.dtype, element_at(call_.k, b_, kv_, first, 0), call_.d, count, call_.k.strides[3]}, kt_,
                  kt_stride_);
  } else if (call_.k.strides[3] == 1 && call_.d >= lane_count) {
    decode_turned({call_.k.dtype, element_at(call_.k, b_, kv_, first, 0), count, call_.d, call_.k.strides[2]}, kt_,
                  kt_stride_);
  } else if (call_.d >= lane_count) {
    constexpr Index most = 64;  // columns at once
    std::array<double, lane_count * most> block{};
    for (Index j = 0; j < count; j += lane_count) {
      const Index some = std::min<Index>(lane_count, count - j);
      if (some < lane_count) block.fill(0);
      for (Index c = 0; c < call_.d; c += most) {
        const Index columns = std::min(most, call_.d - c);
        for (Index n = 0; n < some; ++n)
          read_strided(call_.k, element_at(call_.k, b_, kv_, first + j + n, c), call_.k.strides[3], columns,
                       block.data() + n * most);
        turn_eight(block.data(), most, columns, kt_ + c * kt_stride_ + j, kt_stride_);
      }
    }
  } else {
    for (Index c = 0; c < call_.d && whole > count; ++c)
      std::fill_n(kt_ + c * kt_stride_ + whole - lane_count, lane_count, 0.0);
    if (call_.k.strides[3] == 1 && call_.k.strides[2] == call_.d && count * call_.d <= most_together) {
      read_row(call_.k, b_, kv_, first, count * call_.d, together_);
      for (Index j = 0; j < count; ++j)
        for (Index c = 0; c < call_.d; ++c) kt_[c * kt_stride_ + j] = together_[j * call_.d + c];
    } else {
      for (Index j = 0; j < count; j += 64)
        for (Index c = 0; c < call_.d; ++c)
          read_column(call_.k, b_, kv_, first + j, std::min<Index>(64, count - j), c, kt_ + c * kt_stride_ + j);
    }
  }
  const products::SquareExtent squares = products::square_sums(kt_, kt_stride_, call_.d, whole);
  // Squares of tiny numbers underflow: what they may have hidden is below 1e-153.
  k_norm_ = std::max(tile == 0 ? 0.0 : k_norm_, std::sqrt(squares.largest) + 1e-153 * root_d_);
  k_finite_ = (tile == 0 || k_finite_) && squares.total < infinity;
}

void Quick::load_values(Index tile) {
  if (values_tile_ == tile) return;
  values_tile_ = tile;
  const Index count = tile_size(tile), first = tile * tile_keys_;
  read_rows(call_.v, b_, kv_, first, count, call_.dv, v_, columns_);
  const products::Extent size = products::magnitudes(v_, count * columns_);
  v_top_ = std::max(tile == 0 ? 0.0 : v_top_, size.largest);
  v_finite_ = (tile == 0 || v_finite_) && size.total < infinity;
}

void Quick::load_queries(std::span<const RowIndex> rows) {
  read_rows(call_.q, rows, call_.d, q_, d_stride_);
  top_norm_ = 0;
  for (Index n = 0; n < std::ssize(rows); ++n) {
    State& row = row_at(n);
    row.at = rows[static_cast<std::size_t>(n)];
    row.bounded = row.by_top = row.all = row.lse = row.empty = row.closed_by_bias = false;
  }
  // Some rows beside each other, whose sums wait for none but their own.
  in_groups<4>(std::ssize(rows), [&]<int Rows>(Index first) {
    double square[Rows] = {};
    const double* at = q_ + first * d_stride_;
    for (Index c = 0; c < call_.d; ++c, ++at)
      for (int r = 0; r < Rows; ++r) {
        const double x = at[r * d_stride_];
        square[r] += x * x;
      }
    for (int r = 0; r < Rows; ++r) {
      State& row = row_at(first + r);
      row.q_norm = std::sqrt(square[r]);
      top_norm_ = std::max(top_norm_, row.q_norm);
    }
  });
}

}  // namespace attest::oracle
