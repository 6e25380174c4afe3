#include "kernels/short_heads.hpp"

#include <algorithm>
#include <array>
#include <limits>

#include "kernels/arithmetic.hpp"
#include "kernels/empty_row.hpp"
#include "kernels/loops.hpp"
#include "kernels/rows.hpp"
#include "kernels/scores.hpp"
#include "kernels/scratch.hpp"
#include "kernels/short_rows.hpp"
#include "kernels/tiles.hpp"

namespace attest::kernels {
namespace {

constexpr Index head_rows_min = 16, numbers_max = 128;
constexpr float closed_score = -std::numeric_limits<float>::infinity();

// Where the rows of a block lie.
struct ScatteredRows {
  static constexpr auto most = static_cast<std::size_t>(short_heads_at_once);
  template <class T>
  using Each = std::array<T, most>;

  ScatteredRows(const Call& call, Index first, Index rows) : count(rows) {
    Index i = first % call.lq, h = first / call.lq % call.hq, b = first / call.lq / call.hq;
    const Index group = call.group();
    Index keys = call.length(b);
    for (std::size_t r = 0; r < static_cast<std::size_t>(rows); ++r) {
      sample[r] = b;
      kv_head[r] = h / group;
      length[r] = keys;
      longest = std::max(longest, keys);
      shortest = std::min(shortest, keys);
      q[r] = call.q.at(b, h, i);
      k[r] = call.k.at(b, kv_head[r]);
      v[r] = call.v.at(b, kv_head[r]);
      out[r] = call.out.at(b, h, i);
      if (call.lse) lse[r] = call.lse.at(b, h, i);
      if (call.bias) bias[r] = call.bias.at(b, h, i);
      if (call.keep) keep[r] = call.keep.at(b, h, i);
      open[r] = open_range(call, diagonal(call.align, i, keys, call.lq), keys);
      if (++i < call.lq) continue;
      i = 0;
      if (++h < call.hq) continue;
      h = 0;
      if (++b < call.b) keys = call.length(b);
    }
  }

  Index count, longest = 0, shortest = std::numeric_limits<Index>::max();
  Each<Index> sample, kv_head, length;
  Each<KeyRange> open;
  Each<const std::byte*> q, k, v, bias, keep;
  Each<std::byte*> out, lse;
};

Index bytes_of(const View& view, Index elements) { return elements * static_cast<Index>(size_of(view.type)); }

// out[c * step + r] = element c of what lies `offset` elements past row r.
void load_scattered(const Call& call, const View& view, const ScatteredRows::Each<const std::byte*>& at, Index rows,
                    Index offset, Index columns, Index step, float* out) {
  for (Index c = 0; c < columns; ++c)
    read_scattered(at.data(), bytes_of(view, offset + c * view.strides[3]), view.type, rows, out + c * step);
  if (step != rows)
    for (Index c = 0; c < columns; ++c) std::fill(out + c * step + rows, out + (c + 1) * step, 0.0f);
  round_operands(call, Stage::storage, out, columns * step);
}

// Keys past the end of a sample count as zeros, whatever lies there.
void clear_absent(const ScatteredRows& rows, Index j, Index columns, Index step, float* x) {
  if (j < rows.shortest) return;
  for (Index r = 0; r < rows.count; ++r)
    if (j >= rows.length[static_cast<std::size_t>(r)])
      for (Index c = 0; c < columns; ++c) x[c * step + r] = 0;
}

// Turns scaled products into masked scores: those of key j.
void finish_scattered(const Call& call, const ScatteredRows& rows, Index j, float* s) {
  if (call.softcap_before_bias) apply_softcap(call, s, rows.count);
  if (call.bias) {
    const bool closes = call.softcap_before_bias || call.softcap == 0;
    ScatteredRows::Each<float> bias;
    read_scattered(rows.bias.data(), bytes_of(call.bias, j * call.bias.strides[3]), call.bias.type, rows.count,
                   bias.data());
    for (Index r = 0; r < rows.count; ++r) {
      const float m = bias[static_cast<std::size_t>(r)];
      s[r] = closes && m == closed_score ? closed_score : s[r] + m;
    }
  }
  if (!call.softcap_before_bias) apply_softcap(call, s, rows.count);
  const bool ranges = call.causal || call.window_left >= 0 || call.window_right >= 0 || j >= rows.shortest;
  for (std::size_t r = 0; r < static_cast<std::size_t>(rows.count) && (ranges || call.keep); ++r) {
    const bool kept = !call.keep || rows.keep[r][j * call.keep.strides[3]] != std::byte{0};
    if (j < rows.open[r].lo || j >= rows.open[r].hi || !kept) s[r] = closed_score;
  }
}

}  // namespace

bool are_short_heads(const Call& call) noexcept {
  // A head of short_rows_min has lanes enough of its own.
  return has_short_rows(call) && call.lq < short_rows_min && call.b * call.hq * call.lq >= head_rows_min &&
         call.d + call.lk * (call.d + call.dv) <= numbers_max;
}

bool attend_short_heads(const Call& call, Index first, Index count, bool divide) {
  const ScatteredRows rows(call, first, count);
  const Index step = padded(count), keys = rows.longest;
  Scratch<float> scratch{call.d * 2 * step + keys * call.dv * step + keys * step + 2 * step + call.dv * (step + 1)};
  float* const queries = scratch.take(call.d * step);         // [e][r]
  float* const key = scratch.take(call.d * step);             // [e][r], of one key
  float* const values = scratch.take(keys * call.dv * step);  // [j][c][r]
  float* const weights = scratch.take(keys * step);           // [j][r]
  float* const shift = scratch.take(step);
  float* const sum = scratch.take(step);
  float* const output = scratch.take(call.dv * step);  // [c][r]
  float* const row = scratch.take(call.dv);

  load_scattered(call, call.q, rows.q, count, 0, call.d, step, queries);
  const auto factor = static_cast<float>(call.scale);
  for (Index j = 0; j < keys; ++j) {
    load_scattered(call, call.k, rows.k, count, j * call.k.strides[2], call.d, step, key);
    clear_absent(rows, j, call.d, step, key);
    load_scattered(call, call.v, rows.v, count, j * call.v.strides[2], call.dv, step, values + j * call.dv * step);
    clear_absent(rows, j, call.dv, step, values + j * call.dv * step);
    float* const s = weights + j * step;
    std::fill(s, s + step, 0.0f);
    for (Index e = 0; e < call.d; ++e)
      for (Index r = 0; r < step; ++r) s[r] += queries[e * step + r] * key[e * step + r];
    for (Index r = 0; r < step; ++r) s[r] *= factor;
    finish_scattered(call, rows, j, s);
  }
  const Loops& loops = kernels::loops();
  const bool all_open = loops.soften_columns(weights, step, keys, count, divide, shift, sum);
  if (!all_open && !loops.finite(values, keys * call.dv * step)) return false;
  round_all(call[Stage::weights], weights, keys * step);
  round_operands(call, Stage::weights, weights, keys * step);

  std::fill(output, output + call.dv * step, 0.0f);
  for (Index j = 0; j < keys; ++j)
    for (Index c = 0; c < call.dv; ++c)
      for (Index r = 0; r < step; ++r)
        output[c * step + r] += weights[j * step + r] * values[(j * call.dv + c) * step + r];
  if (!divide)
    for (Index c = 0; c < call.dv; ++c)
      for (Index r = 0; r < step; ++r) output[c * step + r] /= sum[r];
  for (std::size_t r = 0; r < static_cast<std::size_t>(count); ++r) {
    if (sum[r] != 0) continue;
    empty_row(call, rows.sample[r], rows.kv_head[r], rows.length[r], row);
    for (Index c = 0; c < call.dv; ++c) output[c * step + static_cast<Index>(r)] = row[c];
  }
  round_all(call[Stage::output], output, call.dv * step);
  for (Index c = 0; c < call.dv; ++c)
    write_scattered(rows.out.data(), bytes_of(call.out, c * call.out.strides[3]), call.out.type, count,
                    output + c * step);
  if (!call.lse) return true;
  for (Index r = 0; r < count; ++r) shift[r] = sum[r] == 0 ? closed_score : shift[r] + logarithm(Format::f32, sum[r]);
  write_scattered(rows.lse.data(), 0, call.lse.type, count, shift);
  return true;
}

}  // namespace attest::kernels
