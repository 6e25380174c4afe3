// What the sums of a row's weighted values meet on their way, as far as the order of the keys tells (docs/bounds.md, section 7:
// prefixes, and increments that are alike). Asked where the moments of quick_spread.cpp leave an element, or T, open: the full
// formulas take some hundred times as long.
#include <algorithm>
#include <cmath>
#include <utility>

#include "core/format.hpp"
#include "oracle/half_gap.hpp"
#include "oracle/quick.hpp"
#include "oracle/quick_scratch.hpp"
#include "oracle/series.hpp"
#include "oracle/statistical.hpp"

namespace attest::oracle {

namespace {

// A lower bound of the coherence of n increments, of which `count` are not 0, from the root of their mean square, in units in
// which those that share a place are alike. Of them all but one in k^2 are at most k times that root, on either side of 0 or on
// one; they lie in so many places, and the sum of c_g^2 is the least where all are equally full.
double coherence_at_least(double n, double count, double root, double sides) {
  double most = 1;
  for (const double k : {1.5, 2.0, 3.0}) {
    const double alike = count * (1 - 1 / (k * k)), places = sides * (k * root + 1);
    const double coherence = alike * alike / (n * places) * slack;
    if (coherence > most) most = coherence;
  }
  return most;
}

}  // namespace

products::RunningSums Quick::running_of(Index n) const noexcept {
  double* at = scratch_.running.data() + n * products::RunningSums::arrays * columns_;
  const auto next = [&] { return std::exchange(at, at + columns_); };
  return {next(), next(), next(), next(), next(), next(), next()};
}

void Quick::look_at_sums() {
  if (looked_) return;
  looked_ = true;
  scratch_.running.resize(static_cast<std::size_t>(max_rows_ * products::RunningSums::arrays * columns_));
  for (Index tile = 0; tile < tiles_; ++tile) {
    load_values(tile);
    const Index at = tile * tile_keys_, keys = tile_size(tile);
    for (Index n = 0; n < rows_loaded_; ++n)
      if (rows_[n].bounded)
        products::running_sums(p_ + n * stride_ + at, value_scale_, v_, keys, columns_, running_of(n), tile > 0);
  }
  for (Index n = 0; n < rows_loaded_; ++n) look_at_weights(n);
}

void Quick::look_at_weights(Index n) {
  State& row = rows_[n];
  row.added = 0;
  row.weights_alike = 1;
  row.spread.scale = value_scale_;
  row.takes_part = false;
  if (!row.bounded) return;
  double squares = 0, least = 1;
  const double* const p = p_ + n * stride_;
  for (Index j = 0; j < call_.keys; ++j) {
    if (p[j] == 0) continue;
    ++row.added;
    squares += p[j] * p[j];
    least = std::min(least, p[j]);
  }
  row.takes_part = row.added == row.n && surely_linear(row, least);
  // The sum of ones may be exact.
  if (least == 1) return;
  const double root = std::sqrt(squares / row.added) * row.accept.inverse_mass;
  row.weights_alike = coherence_at_least(row.n, row.added, root / (2 * call_.numbers.u_softmax), 1);
}

// Whether the limits of RowSpread hold for every key of a row, were they as light as the lightest.
bool Quick::surely_linear(const State& row, double least_weight) const {
  const Numbers& m = call_.numbers;
  const ForCount& f = *row.f;
  const double below = -std::log(least_weight) * (1 + 1e-9) + 1e-9, z = std::fabs(row.z_max) + below;
  const double s = row.q_norm * k_.norm * m.scale_magnitude;
  const products::VarianceRule& rule = variance_rule_;
  const double variance = rule.constant + square(f.a2 * row.z_max) / 3 +
                          (m.scaled_keys ? square(m.eta_scale * row.q_norm / m.u_softmax) : 0) +
                          rule.per_s * square(s) + rule.per_z * square(z) + rule.per_below * square(below) +
                          rule.per_bias * square(s + z);
  double undivided = m.merges_widen() ? m.with_merges(0, row.n, row.z_most) : 0;
  if (m.arithmetic.normalise_lse)
    undivided +=
        m.u_softmax * ((2 + (m.exp2 ? 4 : 0)) * (row.z_most + m.lazy + f.ln_most + 1) + m.a3 * (f.ln_most + 1)) +
        (row.n + 3) * m.c_exp;
  return largest_tau(row, variance * square(m.u_softmax), k_) <= linear_limit * slack &&
         undivided <= largest_undivided * slack;
}

double Quick::sums_variance(Index n, Index column) const noexcept {
  const State& row = rows_[n];
  const Numbers& m = call_.numbers;
  const products::RunningSums sums = running_of(n);
  const double total = sums.total[column], total2 = square(total), terms = sums.terms[column];
  const double forward = sums.squares[column];
  // The running sum from the last key on is the total less the one before it; less what that difference may be off by.
  const double rounding = (row.added + 16) * 0x1p-51;
  const double backward =
      row.added * total2 - 2 * total * (sums.sums[column] - total) + (forward - total2) -
      rounding * (row.added * total2 + 2 * std::fabs(total) * std::sqrt(row.added * forward) + forward);
  const double additions = std::max({(row.n + 1) * (terms / 6 + total2 / 3), forward, backward});
  const double ulp = 2 * m.u_pv * std::fabs(total), count = sums.count[column];
  const double places = (sums.most[column] - sums.least[column]) / ulp + 2;
  double alike = coherence_at_least(row.n, count, std::sqrt(terms / count) / ulp, 2);
  if (const double by_range = count * count / (row.n * places) * slack; by_range > alike) alike = by_range;
  // What the moments know of s has these sums already, as far as no order and nothing alike matters.
  const double of_moments = (row.n + 1) * (terms / 6 + total2 / 3);
  const double more = m.of_pv * (additions * alike - of_moments) +
                      m.of_sum * (row.n + 1) * (1.0 / 3) * (row.weights_alike - 1) * total2;
  return moments_variance(n, column) + more * square(row.accept.inverse_mass) * slack;
}

// s^2 as products::spread() has it.
double Quick::moments_variance(Index n, Index column) const noexcept {
  const products::SpreadRule& rule = rows_[n].spread;
  const auto at = static_cast<std::size_t>(n * columns_ + column);
  const double scaled = running_of(n).total[column] * rows_[n].accept.inverse_mass, mean2 = square(scaled);
  const double moved = static_cast<double>(second_[at]) * (1 - 2 * rule.epsilon) -
                       2 * scaled * static_cast<double>(first_[at]) + mean2 * rule.weight_sum * (1 - rule.epsilon) -
                       rule.underflow;
  return std::max(0.0, moved) * rule.unit2 * square(rule.inverse_mass) + rule.per_mean2 * mean2 +
         square(rule.absolute * rule.scale);
}

void Quick::find_near_by_sums(Index n) {
  State& row = rows_[n];
  const double gap = format_ == Format::f64 ? 0 : row.accept.unit;
  const double tiny = gap > 0 ? half_smallest_subnormal(format_) : 0;
  const double limit = square(near_lambda * spread_margin * slack);
  row.sums.all_near = true;
  for (Index c = 0; c < call_.dv; ++c) {
    if (is_near(n, c)) continue;
    const double mean = y_[n * columns_ + c], got = got_[n * columns_ + c];
    const double half = half_gap(fill(got), fill(mean), gap, tiny)[0];
    const double beyond2 = square(std::max(0.0, std::fabs(got - mean) - half) * value_scale_);
    const double variance = sums_variance(n, c);
    if (!std::isfinite(got) || !(beyond2 <= limit * variance)) {
      row.sums.all_near = false;
      continue;
    }
    near_[n * groups_ + c / lane_count] |= static_cast<std::uint8_t>(1 << c % lane_count);
    if (beyond2 > 0) row.sums.largest = std::max(row.sums.largest, std::sqrt(beyond2 / variance));
  }
}

}  // namespace attest::oracle
