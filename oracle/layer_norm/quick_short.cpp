// QuickRow's part for rows of few elements, many at a time: section 7 of docs/layer-norm.md.
#include <algorithm>
#include <cmath>

#include "oracle/layer_norm/lent.hpp"
#include "oracle/layer_norm/quick.hpp"

namespace attest::oracle::layer_norm {

std::optional<ShortRule> QuickRow::short_rule() const {
  const double steps = narrow_steps();
  const bool bounds =
                 (m_.rms || m_.variance == Variance::two_pass) && !m_.statistics_lose && !m_.normalise_loses_statistics,
             narrow = narrow_ && steps < little;
  if (!speaks_ || m_.flush || m_.n > ShortRule::longest || (m_.n == 1 && !m_.rms) || !(narrow || bounds) ||
      !(m_.cv < 0.5) || !(m_.relative < 0.25) || !(epsilon_ < 1e30))
    return std::nullopt;
  ShortRule rule;
  rule.n = static_cast<Index>(m_.n);
  rule.precise = precise_;
  rule.rms = m_.rms;
  rule.joint = !m_.rms && m_.variance == Variance::two_pass;
  rule.welford = !m_.rms && m_.variance == Variance::welford;
  rule.weighted = m_.weighted_merges;
  rule.one_pass_like = m_.one_pass_like;
  rule.of_mean = !m_.rms && m_.variance != Variance::shifted;
  rule.u = m_.u;
  rule.eta = m_.statistics.eta;
  rule.exact = 1 / m_.statistics.u;
  rule.additions = m_.additions;
  rule.merges = m_.merge_depth;
  rule.growing = m_.growing;
  rule.hull_growing = m_.hull_growing;
  rule.four = m_.four;
  rule.mean_factor = (1 + m_.three) * (1 + m_.count) / m_.n;
  rule.count = m_.count;
  rule.cv = m_.cv * slack;
  rule.av = rule.welford ? 0 : (2 + 2 * rule.cv) * m_.statistics.eta * slack;
  rule.epsilon = epsilon_;
  rule.epsilon_below = std::max(0.0, epsilon_ - m_.epsilon_lo);
  rule.epsilon_above = std::max(0.0, m_.epsilon_hi - epsilon_);
  rule.gain = std::max(0.0, m_.epsilon_lo - rule.av);
  rule.largest = narrow ? std::min(m_.root_of_overflow / (8 * m_.n), largest_of_narrow_ - 1) : 0;
  rule.steps = steps;
  rule.bounds = bounds;
  rule.most_additions = m_.all_additions;
  rule.overflow = m_.statistics.overflow;
  rule.statistics_u = m_.statistics.u;
  rule.epsilon_lo = m_.epsilon_lo;
  rule.epsilon_hi = m_.epsilon_hi;
  rule.error = m_.normalise_loses_source ? m_.normalise.eta : 0;
  rule.relative = relative_error();
  rule.of_magnitude = m_.of_magnitude;
  rule.of_reach = m_.of_reach;
  rule.normalise_eta = m_.normalise.eta;
  rule.late = 1 - 2 * m_.affine.u;
  rule.gamma = gamma_;
  rule.beta = beta_;
  rule.own_roundings = own_roundings_;
  rule.own_in_two = own_in_two_ + 0x1p-58;
  rule.u_product = rule_.u_product;
  rule.u_affine = rule_.u_affine;
  rule.of_beta = rule_.of_beta;
  rule.least_error = rule_.least_error;
  rule.largest_beta_error = rule_.largest_beta_error;
  rule.gamma_error = rule_.gamma_error;
  rule.of_beta_in_two = rule_.of_beta_in_two;
  rule.eta_product = rule_.eta_product;
  rule.u_out = rule_.u_out;
  rule.eta_out = rule_.eta_out;
  rule.largest_out = rule_.largest_out;
  return rule;
}

// Judges the rows as if they were the elements of one row: t is 0 in each.
bool QuickRow::accept_singles(std::span<const double> got, Index rows, std::uint8_t* accepted) const {
  std::vector<double> x = LentRows::take(got.size()), gamma = LentRows::take(got.size()),
                      beta = LentRows::take(got.size());
  const Returned of_x(x), of_gamma(gamma), of_beta(beta);
  std::ranges::fill(x, rule_.mean);
  std::ranges::fill(gamma, gamma_[0]);
  std::ranges::fill(beta, beta_[0]);
  return accept_row(rule_, x.data(), gamma.data(), beta.data(), got.data(), rows, accepted);
}

}  // namespace attest::oracle::layer_norm
