#include "oracle/layer_norm/spread.hpp"

#include <algorithm>
#include <cmath>

#include "oracle/layer_norm/drift.hpp"
#include "oracle/layer_norm/oracle.hpp"
#include "oracle/series.hpp"

namespace attest::oracle::layer_norm {
namespace {

constexpr double linear = 0.05;  // of t: errors that all elements share are not added up beyond this

// The standard deviation of the squares of n numbers, which welford, two passes and RMSNorm add up.
double spread_of_squares(const std::vector<Wide>& numbers) {
  double sum = 0, squares = 0;
  const auto n = static_cast<double>(numbers.size());
  for (const Wide wide : numbers) {
    const double s = square(static_cast<double>(wide));
    sum += s / n;
    squares += s / n * s;
  }
  return std::sqrt(std::max(0.0, squares - square(sum)));
}

// How many of n roundings of a running sum are one: increments whose differences are below an ulp of the sum meet equal ones.
double alike(double n, double u, double sum, double spread) {
  return 1 + n * (spread > 0 ? std::min(1.0, 2 * u * sum / spread) : sum > 0 ? 1 : 0);
}

}  // namespace

RowSpread::RowSpread(const Numbers& m, const Contract& contract, const SourceRow& source, const Statistics& row,
                     double epsilon)
    : m_(m), mean_(static_cast<double>(row.mean)) {
  if (row.undetermined || row.lost_mean || row.lost_variance || !(row.least > 0) || !source.error.empty() ||
      m.count_lost || m.n < 2)
    return;
  const double n = m.n, u = m.statistics.u, h = m.additions + 2 * m.merge_depth;
  const double v = static_cast<double>(row.variance), whole = v + epsilon, deviation = std::sqrt(v);
  if (!(whole > 0)) return;
  root = 1 / std::sqrt(row.variance + static_cast<Wide>(epsilon));
  scale = 1 / std::sqrt(whole);
  const double eta = square(m.statistics.eta);
  const double mean_abs = row.mean_abs, weighted = m.weighted_merges ? 25 : 1;
  // At each level of a tree the nodes add up to no more than all magnitudes: their squares, to no more than that squared.
  const auto of_sum = [&](double magnitudes, double spread) {
    return square(u) / 3 * (h * weighted * alike(n, u, n * magnitudes, spread) + 5) * square(magnitudes) + eta;
  };
  double mean_error = m.rms ? 0 : of_sum(mean_abs, deviation) + (m.statistics_lose ? square(u * mean_abs) + eta : 0);
  // Relative to the variance, as a sum of squares makes it: v, or what it is the difference of.
  double squares = v, through_mean = 0;
  if (m.one_pass_like) {
    const bool shifted = m.variance == Variance::shifted;
    const double from = shifted ? source.x[0] : 0, moved = mean_ - from;
    squares = v + square(moved);
    double z = mean_abs;
    if (shifted) {
      z = 0;
      for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i) z += std::fabs(source.x[i] - from) / n;
      mean_error = of_sum(z, deviation) + square(u) * (square(mean_) + square(z));
    }
    through_mean = 4 * square(moved) * (of_sum(z, deviation) + square(u) * square(z));
  } else if (!m.rms && m.variance == Variance::welford) {
    // The mean so far, squared steps of which the sum of squares is made: 2 |d| times what it is off by.
    mean_error += eta * square(n / 2);  // steps that underflow do so alike
    through_mean = 4 * square(deviation) * mean_error;
  }
  if (m.statistics_lose) {
    const double read = m.statistics.u * row.largest + m.statistics.eta;
    through_mean += 4 * square((m.one_pass_like ? std::sqrt(squares) : deviation) * read) + square(square(read));
  }
  const double of_variance =
      (square(u) / 3 *
           (h * alike(n, u, n * squares,
                      m.one_pass_like ? std::min(squares, deviation * mean_abs) : spread_of_squares(row.d)) +
            8) *
           square(squares) +
       through_mean + 4 * eta) /
      square(whole);
  const auto& how = contract.arithmetic;
  root_bias = how.rsqrt_rel ? *how.rsqrt_rel + u : 2 * how.rsqrt_ulp * u;
  of_mean = mean_error * square(scale);
  root_bias += drift_of_squares(m, source, row, squares) / whole / 2;
  mean_bias = drift_of_mean(m, source) * scale;
  if (m.one_pass_like)
    root_bias += std::sqrt(std::max(0.0, squares - v)) * scale * mean_bias;
  else if (m.variance == Variance::two_pass)
    root_bias += mean_bias * (mean_bias / 2 + 5 * std::sqrt(of_mean));
  of_scale = of_variance / 4 + square(u) * 4 / 3 + (m.normalise_loses_statistics ? square(m.normalise.u) / 3 : 0);
  of_mean_squared = m.rms || m.variance != Variance::two_pass ? 0 : 2.5 * of_mean;
  applies = 5 * std::sqrt(of_mean) < linear && 5 * std::sqrt(of_scale) < linear && root_bias < linear;
}

Spread RowSpread::of(const Element& e, double y) const {
  const Unit &n = m_.normalise, &a = m_.affine;
  const double r = scale, x = std::fabs(e.x) * r, mean = m_.rms ? 0 : std::fabs(mean_) * r;
  const double t = std::fabs(static_cast<double>(e.d)) * r;
  const double stored = e.has_gamma ? std::fabs(e.gamma) : 1,
               g = std::fabs(e.has_gamma ? m_.gamma_offset + e.gamma : 1), b = std::fabs(e.beta);
  const bool scale_first = m_.form == NormForm::folded || m_.form == NormForm::weighted_scale;
  // Of t, squared: each rounding a third of its square.
  const auto flag = [](bool condition) { return condition ? 1.0 : 0.0; };
  double of_t = square(n.u * t) * (2 + 2 * flag(m_.one_pass_like)) +
                (square(m_.statistics.u * x) + square(m_.statistics.eta * r)) * flag(m_.statistics_lose) +
                square(n.u * x) * flag(m_.normalise_loses_source) + 3 * square(n.eta) + square(n.eta * r);
  double shared = square(n.u * mean) * flag(m_.normalise_loses_statistics);
  if (m_.normalise_loses_statistics) shared += square(n.eta * std::sqrt(static_cast<double>(m_.n)));
  if (m_.form == NormForm::scale_bias) {
    of_t += square(n.u * x);
    shared += 2 * square(n.u * mean);
  }
  if (m_.norm_rounded) of_t += 3 * square(m_.storage.u * t) + square(m_.storage.eta);
  if (m_.affine_loses_normalise) of_t += square(a.u * t) + square(a.eta);
  double of_y = square(a.u * g * t) + square(a.u * y) * flag(b > 0 || m_.form == NormForm::folded) + 3 * square(a.eta);
  if (m_.gamma_offset != 0) of_y += square(a.u * std::max(g, stored) * t) + square(a.u * g * t) + square(a.eta * t);
  if (m_.affine_loses_params) of_y += square(a.u * stored * t) + square(a.eta * t) + square(a.u * b) + square(a.eta);
  if (scale_first) {
    of_y += 2 * square(a.u * g * t) + square(a.eta * t / r);
    if (m_.affine_loses_normalise || m_.affine_loses_source || m_.affine_loses_statistics)
      of_y +=
          square(a.u * g) * (square(x) + square(mean) + 2 * square(t)) + square(a.eta * (g + r * g + x / r + mean / r));
  }
  if (m_.form == NormForm::folded) {
    const double shift = mean * g;
    of_y += square(a.u) * (square(x * g) + 3 * square(shift) + square(shift + b)) + square(a.eta * (x + mean) / r) +
            square(a.eta);
  }
  Spread spread;
  spread.row = shared / 3;
  if (g > 0) {
    // What is made of gamma and beta alone, or of them and the row's statistics.
    if (m_.form == NormForm::folded)
      spread.mean =
          (square(a.u) * (3 * square(mean * g) + square(mean * g + b)) + square(a.eta * mean / r)) / square(g) / 3;
    if (m_.affine_loses_params) spread.mean += (square(a.u * b) + square(a.eta)) / square(g) / 3;
    if (m_.gamma_offset != 0) spread.scale += square(a.u) * (square(std::max(g, stored) / g) + 1) / 3;
    if (m_.affine_loses_params) spread.scale += square(a.u * stored / g) / 3;
    if (scale_first) spread.scale += (2 * square(a.u) + square(a.eta / (r * g))) / 3;
  }
  spread.own = std::sqrt((square(g) * of_t + of_y) / 3);
  spread.shared_squared = square(g) * (of_mean + spread.row + of_scale * square(t));
  spread.shared = g * t * of_mean_squared;
  spread.bias = g * (t * root_bias + mean_bias);
  if (m_.form == NormForm::folded && g > 0) {
    // Where beta has few gaps, or none, for m r gamma, what is rounded off that follows gamma: of t, all elements lose m r, or a part.
    constexpr double few_gaps = 8;
    const double shift = mean * g, half_gap = std::max(a.u * (shift + b), a.eta);
    if (shift <= few_gaps * half_gap) spread.row += square(std::min(mean, half_gap / g));
  }
  return spread;
}

}  // namespace attest::oracle::layer_norm
