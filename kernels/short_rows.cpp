#include "kernels/short_rows.hpp"

#include <array>
#include <limits>

#include "kernels/arithmetic.hpp"
#include "kernels/empty_row.hpp"
#include "kernels/loops.hpp"
#include "kernels/rows.hpp"
#include "kernels/scores.hpp"
#include "kernels/scratch.hpp"
#include "kernels/tiles.hpp"

namespace attest::kernels {
namespace {

constexpr Index keys_max = 12;
constexpr float minus_infinity = -std::numeric_limits<float>::infinity();

// The bias of key j of each row, of which those that are -inf close it where `closes`.
void add_bias_column(const Call& call, Index b, Index h, Index i0, Index rows, Index j, float* s) {
  const bool closes = call.softcap_before_bias || call.softcap == 0;
  std::array<float, 128> bias;
  for (Index first = 0; first < rows; first += std::ssize(bias)) {
    const Index some = std::min(rows - first, std::ssize(bias));
    read_block(call.bias.at(b, h, i0 + first, j), call.bias.type, {1, some, 0, call.bias.strides[2]}, bias.data());
    float* const to = s + first;
    for (Index r = 0; r < some; ++r) {
      const float m = bias[static_cast<std::size_t>(r)];
      to[r] = closes && m == minus_infinity ? minus_infinity : to[r] + m;
    }
  }
}

// Turns scaled products into masked scores: those of key j of rows [i0, i0 + rows).
void finish_scores(const Call& call, Index b, Index h, Index i0, Index rows, Index j, Index length, float* s) {
  if (call.softcap_before_bias) apply_softcap(call, s, rows);
  if (call.bias) add_bias_column(call, b, h, i0, rows, j, s);
  if (!call.softcap_before_bias) apply_softcap(call, s, rows);
  if (call.causal || call.window_left >= 0 || call.window_right >= 0) {
    const Index g = diagonal(call.align, i0, length, call.lq);  // diagonal of the first row; one more for each
    for (Index r = 0; r < rows; ++r) {
      const KeyRange open = open_range(call, g + r, length);
      if (j < open.lo || j >= open.hi) s[r] = minus_infinity;
    }
  }
  if (!call.keep) return;
  const std::byte* kept = call.keep.at(b, h, i0, j);
  for (Index r = 0; r < rows; ++r, kept += call.keep.strides[2])
    if (*kept == std::byte{0}) s[r] = minus_infinity;
}

}  // namespace

bool has_short_rows(const Call& call) noexcept {
  for (const Stage stage : {Stage::qk, Stage::scale, Stage::score, Stage::softmax, Stage::pv})
    if (call[stage] != Format::f32) return false;
  return call.lk <= keys_max;
}

bool are_short_rows(const Call& call, Index rows) noexcept { return rows >= short_rows_min && has_short_rows(call); }

bool attend_short_rows(const Call& call, Index b, Index h, Index i0, Index rows, bool divide) {
  const Index length = call.length(b), kv_head = h / call.group();
  if (length == 0) return false;
  const Index step = padded(rows), d_step = padded(call.d), key_step = padded(length), dv_step = padded(call.dv);
  Scratch<float> scratch{call.d * step + length * d_step + call.dv * key_step + length * step + 2 * step +
                         call.dv * step + rows * dv_step};
  float* const queries = scratch.take(call.d * step);      // [e][r]
  float* const keys = scratch.take(length * d_step);       // [j][e]
  float* const values = scratch.take(call.dv * key_step);  // [c][j]
  float* const weights = scratch.take(length * step);      // [j][r]
  float* const shift = scratch.take(step);
  float* const sum = scratch.take(step);
  float* const turned = scratch.take(call.dv * step);  // [c][r]
  float* const output = scratch.take(rows * dv_step);  // [r][c]

  load_columns(call, call.q, b, h, i0, rows, call.d, rows, queries);
  load_rows(call, call.k, b, kv_head, 0, length, call.d, length, keys);
  load_columns(call, call.v, b, kv_head, 0, length, call.dv, length, values);
  const Loops& loops = kernels::loops();
  loops.dots(keys, d_step, length, queries, step, call.d, rows, static_cast<float>(call.scale), weights, step);
  for (Index j = 0; j < length; ++j) finish_scores(call, b, h, i0, rows, j, length, weights + j * step);
  const bool all_open = loops.soften_columns(weights, step, length, rows, divide, shift, sum);
  if (!all_open && !loops.finite(values, call.dv * key_step)) return false;
  round_all(call[Stage::weights], weights, length * step);
  round_operands(call, Stage::weights, weights, length * step);

  std::fill(turned, turned + call.dv * step, 0.0f);
  loops.weigh(values, key_step, call.dv, length, weights, step, rows, turned, step);
  if (!divide)
    for (Index c = 0; c < call.dv; ++c)
      for (Index r = 0; r < step; ++r) turned[c * step + r] /= sum[r];
  if (dv_step != call.dv) std::fill(output, output + rows * dv_step, 0.0f);
  loops.columns(turned, step, call.dv, rows, dv_step, output);
  for (Index r = 0; r < rows; ++r) {
    float lse = minus_infinity;
    if (sum[r] == 0)
      empty_row(call, b, kv_head, length, output + r * dv_step);
    else if (call.lse)
      lse = shift[r] + logarithm(Format::f32, sum[r]);
    write_output(call, b, h, i0 + r, output + r * dv_step, &lse);
  }
  return true;
}

}  // namespace attest::kernels
