#include "oracle/layer_norm/decide.hpp"

#include <algorithm>
#include <cmath>

#include "oracle/layer_norm/oracle.hpp"
#include "oracle/layer_norm/quick_loops.hpp"

namespace attest::oracle::layer_norm {

DecideRow::DecideRow(const Numbers& numbers, const Params& params, const Rounding& round)
    : m_(numbers), params_(params), round_(round) {}

// Computes the terms of section 4 that depend on a column alone.
void DecideRow::prepare() {
  prepared_ = true;
  const auto n = static_cast<std::size_t>(m_.n);
  const auto whole = static_cast<std::size_t>(padded(static_cast<Index>(n)));
  for (auto* column : {&gamma_, &gamma_error_, &gamma_flushed_, &gamma_most_, &product_error_, &beta_, &beta_error_,
                       &sum_error_, &live_, &beta_left_, &zero_left_})
    column->assign(whole, 0);
  const Unit& a = m_.affine;
  const bool has_gamma = !params_.gamma.empty(), has_beta = !params_.beta.empty();
  const bool offset = m_.gamma_offset != 0 && has_gamma, folded = m_.form == NormForm::folded;
  const bool scale_first = folded || m_.form == NormForm::weighted_scale;
  const double least = std::max(smallest_normal(a.format), smallest_normal(m_.params));
  const double absolute = (offset ? (m_.flush ? 3 : 1) * a.eta : 0) + (has_gamma && m_.affine_loses_params ? a.eta : 0);
  for (std::size_t i = 0; i < n; ++i) {
    const double stored = has_gamma ? params_.gamma[i] : 1, g = stored + (has_gamma ? m_.gamma_offset : 0);
    const double b = has_beta ? params_.beta[i] : 0;
    double relative = offset ? a.u * std::max(std::fabs(g), std::fabs(stored)) : 0;
    if (has_gamma && m_.affine_loses_params) relative += a.u * std::fabs(stored) * (1 + a.u);
    if (has_gamma && m_.flush && stored != 0 && std::fabs(stored) < least) gamma_flushed_[i] = std::fabs(stored);
    const bool keeps_bits = !scale_first && (!has_gamma || (!offset && is_power_of_two(std::fabs(stored))));
    const bool vanishes = g == 0 && gamma_flushed_[i] == 0 && absolute == 0 && relative == 0;
    gamma_[i] = g;
    gamma_error_[i] = relative * (1 + a.u) + absolute;
    gamma_most_[i] = std::fabs(g) + relative + absolute + gamma_flushed_[i];
    product_error_[i] = keeps_bits ? 0 : a.u * (1 + a.u);
    live_[i] = vanishes ? 0 : 1;
    beta_[i] = b;
    beta_left_[i] = round_(round_to(a.format, b));
    zero_left_[i] = m_.flush && std::fabs(b) < least ? 1 : 0;
    if (vanishes && b == 0) continue;  // exactly 0
    sum_error_[i] = b != 0 || folded ? a.u : 0;
    beta_error_[i] = (m_.flush ? 2 * a.eta : 0) + (has_beta && m_.affine_loses_params ? a.u * std::fabs(b) + a.eta : 0);
    if (m_.flush_inputs && std::fabs(b) < smallest_normal(m_.params)) beta_error_[i] += std::fabs(b);
    if (!std::isfinite(stored) || !std::isfinite(b)) gamma_[i] = std::numeric_limits<double>::quiet_NaN();
  }
}

void DecideRow::operator()(const SourceRow& source, const Statistics& row, std::span<const double> got,
                           std::span<std::uint8_t> decided) {
  std::ranges::fill(decided, std::uint8_t{Decided::unknown});
  // Rounded twice, an end may pass a number of the tensor that lies between it and what it is rounded to first.
  if (row.undetermined || m_.n < 2 || round_.stage != round_.tensor) return;
  // Differences of doubles that are nearly subnormal have few bits in double.
  if (round_.tensor == Format::f64 && !(row.largest > 0x1p-900)) return;
  if (!(row.hi < 0x1p900L)) return;  // squares near the end of its range, or past it
  if (!prepared_) prepare();
  const auto number = [](Wide x) { return static_cast<double>(x); };
  const Unit &s = m_.statistics, &n = m_.normalise, &a = m_.affine;
  const double dm = number(row.dm), mean = std::fabs(number(row.mean)) + dm, flushed = m_.flush ? s.eta : 0;
  DecideRule rule{};
  rule.form = m_.form;
  rule.dm = dm;
  rule.mean = mean;
  rule.difference = number(row.ed) + (m_.flush ? 3 * n.eta : 0);
  double root = m_.root;
  bool beta_ok = row.lost_variance, nonfinite = row.lost_mean || row.lost_variance || !(row.least > 0);
  const auto reaches = [](double x, double overflow) { return x * (1 - 0x1p-40) >= overflow; };
  if (m_.normalise_loses_statistics) {
    rule.difference += n.u * mean + n.eta;
    root = both(root, n.u);
    nonfinite = nonfinite || reaches(mean, n.overflow) || reaches(number(row.largest_root) * (1 + root), n.overflow);
    const double largest = std::sqrt(number(row.hi + m_.epsilon_hi)) * (1 + 2 * s.u);
    if (std::fabs(largest / n.overflow - 1) < 0x1p-40) return;
    beta_ok = beta_ok || largest >= n.overflow;
  }
  if (m_.normalise_loses_source) {
    rule.difference += n.eta;
    rule.difference_of_x = n.u;
  }
  if (beta_ok && m_.affine_loses_params)
    return;  // a different number is left of beta for each format that the stage may have
  rule.nonfinite = nonfinite;
  rule.beta_left = beta_ok;
  rule.open = row.lost_variance && m_.clamp;
  const bool joint = row.joint && row.cv < 1;
  const double r = number(row.largest_root) * (1 + root);
  rule.unbounded = !(row.least > 0);
  rule.always_unbounded = joint && row.av > 0;
  if (rule.unbounded && joint && !(row.av > 0)) return;
  if (!rule.unbounded && joint) {
    const Wide gain = m_.epsilon_lo - flushed - row.av, v = row.variance, cv = row.cv;
    const Wide low = gain >= 0 ? v + gain : std::max<Wide>(0, v + gain / (1 - cv));
    const Wide high = v + m_.epsilon_hi + row.av + flushed, dm2 = row.dm * row.dm;
    rule.low = number(low);
    rule.high = number(high);
    rule.low_scale = 1 / (1 - number(cv));
    rule.high_scale = 1 / (1 + number(cv));
    rule.top = number(1 / std::sqrt((1 - cv) * (low + dm2)));
    rule.bottom = number(1 / std::sqrt((1 + cv) * (high + dm2)));
    rule.turns = true;
    if (!(rule.low > 0)) return;
  } else if (!rule.unbounded) {
    rule.top = number(row.largest_root);
    rule.bottom = number(1 / std::sqrt(row.hi + m_.epsilon_hi + flushed));
  }
  if (!rule.unbounded && (!std::isfinite(rule.top) || !std::isfinite(r))) return;
  rule.r = r;
  double relative = both(root, compounded(2, n.u)), of_reach = 0;
  rule.t_absolute = (m_.flush ? 2 : 1) * n.eta;
  if (m_.normalise_loses_statistics && !rule.unbounded) {
    const double q = n.eta * r;
    if (!(q < 0.49)) return;
    relative = (relative + q) / (1 - q);
    of_reach = n.eta;
  }
  rule.t_relative = relative;
  rule.t_of_reach = of_reach;
  if (m_.form == NormForm::scale_bias) {
    rule.t_of_magnitude = r * compounded(4, n.u);
    rule.t_late = (m_.flush ? 4 : 2) * n.eta;
  }
  const bool scale_first = m_.form == NormForm::folded || m_.form == NormForm::weighted_scale;
  rule.t_overflow = rule.t2_overflow = infinity;
  if (m_.norm_rounded)
    rule.stored_u = m_.storage.u, rule.stored_eta = m_.storage.eta, rule.t_overflow = m_.storage.overflow;
  if (m_.affine_loses_normalise && !scale_first)
    rule.narrow_u = a.u, rule.narrow_eta = a.eta, rule.t2_overflow = a.overflow;
  rule.reach_overflow = n.overflow;
  rule.gamma_offset = m_.gamma_offset;
  rule.a_u = a.u;
  rule.p_absolute = (m_.flush ? 3 : 1) * a.eta;
  const bool loses = m_.affine_loses_source || m_.affine_loses_statistics || m_.affine_loses_normalise;
  const double eta = (m_.flush ? 2 : 1) * a.eta;
  if (m_.form == NormForm::weighted_scale) {
    rule.p_product = compounded(loses ? 4 : 1, a.u) * r;
    rule.p_length = eta;
    if (loses) rule.p_gamma = eta * r, rule.p_both = eta;
  } else if (m_.form == NormForm::folded) {
    rule.p_product = compounded(loses ? 8 : 5, a.u) * r;
    rule.p_length = eta;
    rule.p_late = 2 * eta;
    if (loses) rule.p_gamma = 2 * eta * r, rule.p_both = eta;
  }
  rule.p_overflow = a.overflow;
  rule.y_overflow = std::min({a.overflow, overflow_threshold(m_.output), m_.storage.overflow});
  rule.own = m_.output == Format::f64 ? 0x1p-60 : 0x1p-52;
  rule.hull = std::sqrt(m_.n);
  rule.u_out = unit_roundoff(round_.tensor);
  // Subnormal doubles are rounded by half a step of an out in f64, and no double is half a step.
  const bool of_doubles = round_.tensor == Format::f64;
  rule.eta_out = of_doubles ? 0 : half_smallest_subnormal(round_.tensor);
  rule.own_least = of_doubles ? 0x1p-1070 : 0;
  rule.largest_out = largest_finite(round_.tensor);
  const auto count = static_cast<std::size_t>(m_.n), whole = static_cast<std::size_t>(padded(static_cast<Index>(m_.n)));
  d_.resize(whole);
  for (std::size_t i = 0; i < count; ++i) d_[i] = number(row.d[i]);
  error_.assign(whole, 0);
  std::ranges::copy(source.error, error_.begin());
  decide_row(rule,
             {gamma_.data(), gamma_error_.data(), gamma_flushed_.data(), gamma_most_.data(), product_error_.data(),
              beta_.data(), beta_error_.data(), sum_error_.data(), live_.data(), beta_left_.data(), zero_left_.data()},
             source.x.data(), error_.data(), d_.data(), got.data(), static_cast<Index>(count), decided.data());
}

}  // namespace attest::oracle::layer_norm
