// The statistical side of the quick levels: a lower bound of s for every element (docs/bounds.md, "Tiers two and three").
// Every term of section 7 is at least 0; those that are not cheap are left out, and the sum of the squares of a score's
// products is replaced by its least, s^2 / D.
#include <algorithm>
#include <cmath>

#include "oracle/quick.hpp"
#include "oracle/quick_scratch.hpp"
#include "oracle/statistical.hpp"

namespace attest::oracle {
namespace {

double square(double x) { return x * x; }

constexpr double slack = 1 - 1e-6;

}  // namespace

void Quick::prepare_spreads() {
  const Numbers& m = call_.numbers;
  const bool capped = m.softcap > 0, cap_is_last = capped && !(m.softcap_before_bias && call_.has_bias);
  double per_s = square(m.u_acc) / 3 * ((m.d + 1) * (1 / (6 * m.d) + 1.0 / 3) + (m.inexact_qk ? 1 / m.d : 0)) +
                 (square(m.u_score) + square(m.u_scale)) / 3 + square(m.u_operand) / (3 * m.d);
  if (m.scaled_keys) per_s += 2 * square(m.u_scale) / (3 * m.d);
  double per_z = square(m.u_softmax) * (1 + m.a1) / 3;
  if (call_.has_bias || capped) per_z += 2 * square(m.u_score) / 3;
  if (cap_is_last && !(m.tanh_absolute > 0)) per_z += square(m.tanh_relative) / 3;
  const double constant = 4 * square(m.c_exp) / 3 + (capped ? 0 : m.d * square(m.eta_acc * m.mu));
  const double unit2 = square(m.u_softmax);
  // Under a softcap the score that its products made is not known any more.
  variance_rule_ = {0, constant / unit2, capped ? 0 : per_s / unit2, per_z / unit2, m.a3 / 3};
}

void Quick::vary(State& row, Index n, const double* bias) {
  const Numbers& m = call_.numbers;
  products::VarianceRule rule = variance_rule_;
  rule.z_max = row.z_max;
  rule.constant += square(m.merged_a2(row.n) * row.z_max) / 3;
  float* variance = Scratch::need(scratch_.w, max_rows_ * stride_) + n * stride_;
  products::variances(rule, scratch_.p.data() + n * stride_, rule.per_s > 0 ? bias : nullptr, variance, stride_);
}

void Quick::square_row(State& row, Index n) {
  const Numbers& m = call_.numbers;
  const double keys = row.n, unit2 = square(m.u_softmax), top = std::fabs(row.z_max);
  double every = square(m.u_pv) / 3 * ((keys + 1) / 6 + (m.inexact_pv ? 1 : 0));
  if (m.merges) every += square(m.u_partial + 2 * m.c_div * m.u_final) / 3;
  // Where the largest weight may come out small, more weights may be lost than are told from `least`.
  const bool rounds = m.weights_round && 2 * m.u_softmax * row.z_most < 0.01;
  const double rounded = every + (rounds ? square(m.u_weights) / 3 : 0);
  float* w = scratch_.w.data() + n * stride_;
  float* w2 = Scratch::need(scratch_.w2, max_rows_ * stride_) + n * stride_;
  const products::SquareSums sums = products::square_weights({every / unit2, rounded / unit2, 2 * keys * m.eta_weights},
                                                             scratch_.p.data() + n * stride_, w, w2, stride_);
  double undivided = m.with_merges(0, keys, top);
  if (m.arithmetic.normalise_lse)
    undivided +=
        m.u_softmax * ((2 + (m.exp2 ? 4 : 0)) * (top + m.lazy + ln_least(keys) + 1) + m.a3 * (ln_least(keys) + 1)) +
        4 * m.c_exp;
  // What a narrower operand loses of v is no part of s.
  row.has_spread = sums.w < 1e30 && undivided <= largest_undivided && !m.operand_rounds;
  if (!row.has_spread) return clear_spread(n);

  const double inverse = row.accept.inverse_mass;
  const double per_mean2 = square(m.u_pv) / 3 * ((keys + 1) / 3 + 3) +
                           unit2 / 3 * ((keys + 1) * (sums.p2 * inverse * inverse / 6 + 1.0 / 3) + 3) +
                           square(m.c_div * m.u_final);
  const bool first = m.arithmetic.normalise_before || m.arithmetic.normalise_lse;
  const double shift_error = 2 * m.u_softmax * row.z_most;
  const double underflow = 2 * std::sqrt(keys) *
                           ((m.eps0 + m.eta_weights) * inverse + (first ? m.eta_softmax + m.eta_weights : 0)) *
                           (shift_error < 0.01 ? 1 : std::exp(bounded(shift_error)));
  row.spread = {.inverse_mass = inverse,
                .scale = 1,
                .unit2 = unit2 * slack,
                .weight_sum = sums.w,
                .epsilon = 2 * (keys + 16) * 0x1p-24,
                .per_mean2 = per_mean2 * slack,
                .absolute = std::sqrt(keys) * m.eta_pv * slack,
                .linear = (m.merges ? m.c_div * m.u_final : 0) + undivided / std::sqrt(3.0),
                .unit = row.accept.unit,
                .gap = format_ == Format::f64 ? 0 : row.accept.unit,
                .tiny = row.accept.tiny,
                .floor = underflow + 0x1p-62 * std::sqrt(keys),  // and weights that the moments leave out
                .limit = near_lambda * spread_margin * slack};
}

void Quick::clear_spread(Index n) {
  float* w = Scratch::need(scratch_.w, max_rows_ * stride_) + n * stride_;
  float* w2 = Scratch::need(scratch_.w2, max_rows_ * stride_) + n * stride_;
  std::fill(w, w + stride_, 0.0F);
  std::fill(w2, w2 + stride_, 0.0F);
}

// The values of a tile in units of the power of two below the head's largest.
void Quick::scale_values(Index tile) {
  const Index count = tile_size(tile) * columns_;
  if (tile == 0) {
    double top = v_top_;
    if (tiles_ > 1) {
      std::vector<double> row(static_cast<std::size_t>(call_.dv));
      for (Index j = 0; j < call_.keys; ++j) {
        read_row(call_.v, b_, kv_, j, call_.dv, row.data());
        for (const double v : row) top = std::max(top, std::fabs(v));
      }
    }
    value_scale_ = top > 0 && top < 1e200 ? std::ldexp(1.0, std::min(-std::ilogb(top), 1000)) : 1;
  }
  products::squares(scratch_.v.data(), value_scale_, Scratch::need(scratch_.scaled, tile_keys_ * columns_),
                    Scratch::need(scratch_.squared, tile_keys_ * columns_), count);
}

void Quick::add_moments(Index rows, Index tile) {
  float* first = Scratch::need(scratch_.first, max_rows_ * columns_);
  float* second = Scratch::need(scratch_.second, max_rows_ * columns_);
  const Index at = tile * tile_keys_;
  for (Index n = 0; n < rows; n += 4)
    products::moments(scratch_.w.data() + n * stride_ + at, scratch_.w2.data() + n * stride_ + at, stride_,
                      std::min<Index>(4, rows - n), scratch_.scaled.data(), scratch_.squared.data(), tile_size(tile),
                      columns_, first + n * columns_, second + n * columns_, tile > 0);
}

}  // namespace attest::oracle
