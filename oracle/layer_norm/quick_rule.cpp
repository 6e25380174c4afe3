// The rule by which accept() judges the elements of a row: section 4 of docs/layer-norm.md, by lower bounds of the
// errors of its statistics.
#include <algorithm>
#include <cmath>

#include "oracle/layer_norm/quick.hpp"

namespace attest::oracle::layer_norm {

// Makes the rule of a row of one element, in which t is 0.
void QuickRow::take_nothing_of_t() {
  rule_.mean = r_.x0;
  rule_.scale = 1;
  rule_.turns = rule_.in_two = rule_.raised = false;
  rule_.exact_mean = true;
  std::ranges::fill(rule_.constant, 0);
  std::ranges::fill(rule_.proportional, 0);
}

// Returns the relative error of t, beside that of its statistics.
double QuickRow::relative_error() const {
  double relative = m_.relative * slack;
  const auto widened = [](double by, double more) { return by + more * (1 - by); };  // by a part of what is left of t
  if (m_.norm_rounded) relative = widened(relative, m_.storage.u);
  if (m_.affine_loses_normalise && m_.form != NormForm::folded && m_.form != NormForm::weighted_scale)
    relative = widened(relative, m_.affine.u);
  return widened(relative, of_params_) * slack;
}

// The end of an interval of t on its far side is at least (d + D) top, or where d + D is negative (d + D) bottom, so
// that its distance from t = d scale is D bottom + |t| min(top / scale - 1, 1 - bottom / scale) or more. With (top /
// scale)^2 = 1 / (1 + q) and (bottom / scale)^2 = 1 / (1 + q') these are at least -q/2 and q' / (2 (1 + q')). D, q and
// q' are those of one error delta of the mean, or of the whole box.
void QuickRow::make_rule() {
  const Bounds& b = least_;
  const Unit &n = m_.normalise, &a = m_.affine;
  const double whole = whole_, flushed = m_.flush ? m_.statistics.eta : 0;
  if (m_.n == 1 && !m_.rms) {
    take_nothing_of_t();
    return;
  }
  const bool in_two = precise_ && !is_near_;
  const Wide wide_scale =
      in_two ? 1 / std::sqrt(static_cast<Wide>(r_.variance) + r_.variance_rest + static_cast<Wide>(epsilon_)) : 0;
  const double scale = in_two ? static_cast<double>(wide_scale) : 1 / std::sqrt(whole);
  rule_.mean = r_.mean;
  rule_.scale = scale;
  rule_.exact_mean = r_.mean_error == 0 && r_.mean_rest == 0;
  rule_.in_two = in_two;
  rule_.raised = is_raised_;
  rule_.mean_rest = r_.mean_rest;
  rule_.scale_rest = in_two ? static_cast<double>(wide_scale - scale) : 0;
  const double error =
      b.ed + (m_.flush ? 3 * n.eta : 0) + (m_.normalise_loses_source ? n.eta : 0) +
      (m_.normalise_loses_statistics ? n.u * std::max(0.0, std::fabs(r_.mean) - r_.mean_error) + n.eta : 0);
  // The reference's own: of x - mean, and relative to it.
  const double of_mean = r_.mean_error + std::fabs(r_.mean_rest);
  const double of_variance = r_.variance_error / whole, own_in_two = of_variance + own_in_two_ + 0x1p-58;
  // A scale in double has a root and a quotient more, and half of what its variance is off by.
  const double own =
      is_near_ ? (own_roundings_ + 2) * bit + of_variance * (0.5 + of_variance) : own_roundings_ * bit + of_variance;
  const double relative = relative_error();
  const double late = 1 - 2 * a.u;  // the rounding after t is part of the end, and not of t
  const double magnitude = std::max(0.0, std::fabs(r_.mean) - r_.mean_error) * scale;
  // A radius of t: `reach` beside `stretch` |t| before it is widened, and what of it the reference is off by itself.
  const auto least_constant_of = [&](double reach) {
    const double constant = reach * (1 - relative) + (is_raised_ ? n.eta * AcceptRowRule::raise : n.eta) +
                            (magnitude > 1 ? m_.of_magnitude * magnitude : 0);
    // Among subnormal doubles `slack` takes nothing off.
    return precise_ ? std::max(0.0, constant * late * slack - 0x1p-1070) : constant * late * slack;
  };
  const double off_constant = of_mean * scale * up + (of_mean > 0 && precise_ ? 0x1p-1072 : 0),
               off_constant_in_two = (r_.mean_error + 4 * bit * std::fabs(r_.mean_rest)) * scale * up + 0x1p-1070;
  const auto constant_of = [&](double reach) { return least_constant_of(reach) - off_constant; };
  const auto proportional_of = [&](double stretch, double lost) {
    const double proportional =
        stretch * (1 - relative) + relative + m_.of_reach + (magnitude > 1 ? 0 : m_.of_magnitude);
    return proportional * late * (proportional > 0 ? slack : up) - lost;
  };
  // Sets the constants of one line for `top`, by (top / scale)^2 = 1 / (1 - minus_q), and for `bottom`.
  const auto put = [&](int line, double delta, double minus_q, double q) {
    const double far = minus_q < -0.125 ? -(1 - slack / std::sqrt(1 - minus_q)) : minus_q / 2;
    // For a small q, without roots and quotients: 1 / sqrt(1 + q) is at least 1 - q/2, and 1 / (1 + q) at least 1 - q.
    const bool small = q < 0x1p-10;
    const double near = small ? q * (1 - q) / 2 : q > 0.125 ? 1 - up / std::sqrt(1 + q) : q / (2 * (1 + q));
    const double bottom = small ? 1 - q / 2 : 1 / std::sqrt(1 + q);
    const double constant = least_constant_of((delta + error) * scale * bottom);
    rule_.constant[line] = rule_.near_constant[line] = constant - off_constant;
    rule_.constant_in_two[line] = constant - off_constant_in_two;
    rule_.proportional[line] = proportional_of(std::min(far, near), own);
    rule_.proportional_in_two[line] = rule_.proportional[line] + (own - own_in_two);
    rule_.near_proportional[line] = proportional_of(near, own);
  };
  rule_.turns = false;
  const double eps_low = std::max(0.0, epsilon_ - m_.epsilon_lo), eps_high = std::max(0.0, m_.epsilon_hi - epsilon_);
  const double v = std::max(0.0, r_.variance - r_.variance_error);
  if (!b.joint || b.cv >= 1 || most_.cv >= 1) {
    // Where cv is close to 1 nobody knows here which of both the whole takes.
    const bool unsure = b.joint && b.cv < 1;
    // Where no element is farther from the mean than the mean's error, both ends are those of the larger root: D scale
    // away, or more.
    if (!unsure && !is_raised_ && std::sqrt(m_.n * (r_.variance + r_.variance_error)) * up <= b.dm * slack) {
      std::ranges::fill(rule_.constant, constant_of((b.dm + error) * scale));
      std::ranges::fill(rule_.proportional, proportional_of(0, own));
      rule_.in_two = false;
      return;
    }
    put(0, unsure ? 0 : b.dm, unsure ? 0 : (b.below + eps_low + flushed) / whole * slack,
        unsure ? 0 : (b.above + eps_high + flushed) / whole * slack);
    rule_.constant[1] = rule_.constant[0];
    rule_.proportional[1] = rule_.proportional[0];
    rule_.constant_in_two[1] = rule_.constant_in_two[0];
    rule_.proportional_in_two[1] = rule_.proportional_in_two[0];
    return;
  }
  const double gain = std::max(0.0, m_.epsilon_lo - flushed - b.av);
  const auto of_delta = [&](int line, double delta) {
    const double apart = delta * delta;
    const double minus_q = ((b.cv * (v + gain) + eps_low + flushed + b.av) * slack - (1 - b.cv) * apart * up) / whole;
    const double q =
        (b.cv * (v + m_.epsilon_hi + b.av + flushed + apart) + eps_high + b.av + flushed + apart) / whole * slack;
    put(line, delta, minus_q, q);
  };
  of_delta(0, std::min(b.dm, std::sqrt(b.cv * whole / 2)));
  of_delta(1, b.dm);
  const double reach = b.dm * scale * slack;
  if (!(reach > 0x1p-5) || !(m_.epsilon_lo > flushed + b.av)) return;
  // delta = -W / d gives sign(d) sqrt((1 + d^2 / W) / s), which is the less the larger W and s are.
  const double w = (r_.variance + r_.variance_error + gain) / whole * up;
  rule_.turns = true;
  rule_.turn_from = w / reach * up + of_mean * scale * up;
  rule_.turn_w = 1 / w;
  rule_.turn_s = 1 / (1 - b.cv * slack);
  rule_.turn_stretch = (1 - relative) * late * slack;
  rule_.turn_constant = constant_of(0);
  rule_.turn_proportional = proportional_of(0, own + 8 * bit);
}

}  // namespace attest::oracle::layer_norm
