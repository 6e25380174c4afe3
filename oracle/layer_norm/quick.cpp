#include "oracle/layer_norm/quick.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "oracle/layer_norm/lent.hpp"
#include "oracle/layer_norm/oracle.hpp"
#include "oracle/layer_norm/quick_loops.hpp"

namespace attest::oracle::layer_norm {

QuickRow::QuickRow(const QuickNumbers& numbers, const Params& params, double epsilon, const Rounding& round)
    : m_(numbers), epsilon_(epsilon), round_(round), precise_(round.tensor == Format::f64) {
  const Index n = static_cast<Index>(m_.n);
  speaks_ = !m_.count_lost && round_.stage == round_.tensor;
  narrow_ = m_.can_be_narrow;
  if (!speaks_) return;
  const Unit& a = m_.affine;
  const bool offset = m_.gamma_offset != 0 && !params.gamma.empty();
  of_params_ = 0;
  if (offset || (m_.affine_loses_params && !params.gamma.empty())) of_params_ = a.u;
  gamma_ = params.gamma.data();
  beta_ = params.beta.data();
  const auto whole = static_cast<std::size_t>(padded(n));
  if (params.gamma.empty() || offset) {
    own_gamma_ = LentRows::take(whole);
    for (std::size_t i = 0; i < whole; ++i) own_gamma_[i] = offset ? params.gamma[i] + m_.gamma_offset : 1;
    gamma_ = own_gamma_.data();
  }
  if (params.beta.empty()) {
    own_beta_ = LentRows::take(whole);
    std::ranges::fill(own_beta_, 0);
    beta_ = own_beta_.data();
  }
  const ColumnFacts facts = column_facts(m_.columns, gamma_, beta_, n);
  narrow_ = narrow_ && facts.narrow;
  narrow_if_mean_is_ = facts.narrow && m_.form == NormForm::centred && !m_.flush && !m_.normalise_loses_statistics &&
                       !m_.normalise_loses_source && !m_.affine_loses_params && m_.relative < 0.25;
  largest_beta_ = facts.largest_beta;
  largest_gamma_ = facts.largest_gamma;
  // r gamma may lose eta, which x or x - m multiplies.
  const bool scale_first = m_.form == NormForm::folded || m_.form == NormForm::weighted_scale;
  largest_of_narrow_ = scale_first ? facts.least_gamma * std::sqrt(m_.n) / a.eta / 256 : infinity;
  rule_.u_product = slack * a.u;
  rule_.u_affine = slack * a.u;
  const double of_sum = precise_ ? 1.25 * bit : 8 * bit;
  // The reference rounds the scale, its product with the difference, gamma with its offset, and where present the
  // difference, a product with gamma and a sum with beta.
  own_roundings_ =
      precise_ ? 2.5 + (m_.rms ? 0 : 1) + (params.gamma.empty() ? 0 : 1) + (params.beta.empty() ? 0 : 1) : 16;
  own_in_two_ = precise_ && offset ? bit : 0;
  own_roundings_ += own_in_two_ / bit;
  const double of_beta = m_.affine_loses_params && !params.beta.empty() ? slack * a.u : 0;
  rule_.of_beta = of_beta - of_sum;
  rule_.of_beta_in_two = of_beta - 0x1p-100;
  rule_.least_error = precise_ ? 0x1p-1069 : 0;
  // Where one gamma is huge, underflow is counted for each gamma by itself. No product of the bound is then subnormal,
  // which would be slow.
  const bool huge = precise_ && largest_gamma_ > 0x1p50;
  rule_.largest_beta_error = of_sum * largest_beta_ + (!precise_                     ? 0
                                                       : !huge && largest_gamma_ < 3 ? 0x1p-1067
                                                                                     : 0x1p-1019);
  rule_.gamma_error = huge ? 0x1p-1019 : 0;
  rule_.eta_product = a.eta;
  rule_.u_out = unit_roundoff(round_.tensor);
  // No double is half a step of subnormal doubles.
  rule_.eta_out = precise_ ? 0 : half_smallest_subnormal(round_.tensor);
  rule_.largest_out = largest_finite(round_.tensor);
}

QuickRow::~QuickRow() {
  LentRows::give(own_gamma_);
  LentRows::give(own_beta_);
  LentRows::give(raised_);
}

QuickRow::Known QuickRow::enter(const SourceRow& row) {
  Known known;
  bottom_ = 0;
  if (!speaks_ || !row.finite || !row.error.empty()) return known;
  if (precise_ && surely_lost(row)) {
    known.lost = true;
    return known;
  }
  if (!refer(row)) return known;
  whole_ = r_.variance + epsilon_;
  if (!(epsilon_ < 1e30) || !(whole_ < 1e290)) return known;
  known.narrow = is_narrow();
  if (is_near_ && !known.narrow) {
    is_near_ = false;
    refer_variance(row.x.data());
    whole_ = r_.variance + epsilon_;
    known.narrow = is_narrow();
  }
  if (is_raised_ && !known.narrow) return {};
  if (known.narrow && m_.n == 1 && !m_.rms) {
    take_nothing_of_t();
    known.determined = true;
    return known;
  }
  least_ = bounds(false);
  if (!known.narrow) {
    most_ = bounds(true);
    known = bounded_by_most();
  } else {
    known.determined = true;
  }
  if (known.determined) make_rule();
  // Smaller ones give infinities beside a huge beta alone.
  if (known.narrow && precise_ && !is_raised_ && largest_gamma_ > 0x1p900 && m_.form != NormForm::scale_bias &&
      m_.form != NormForm::folded)
    bound_infinities();
  return known;
}

// Tells whether the variance of a row in float64 surely overflows: n v is at least half the square of the range, or the
// square of the largest magnitude.
bool QuickRow::surely_lost(const SourceRow& row) const {
  if (!(row.sums.largest >= 0x1p512)) return false;
  if (m_.rms) return row.sums.largest >= 0x1p513;
  const auto [least, most] = std::ranges::minmax(std::span(row.x).first(static_cast<std::size_t>(m_.n)));
  return most / 2 - least / 2 >= 0x1p513;
}

// Returns at least the sum of all errors, in units of the largest |x| over the root.
double QuickRow::narrow_steps() const { return (4 * m_.additions + 64 + 32 * m_.merge_depth) * m_.u; }

// Tells whether no error is large enough for an interval to be wide or open, by far.
bool QuickRow::is_narrow() const {
  if (!narrow_ || !(whole_ > 0x1p-100)) return false;
  if (!(r_.largest * 8 * m_.n < m_.root_of_overflow) || !(r_.largest + 1 < largest_of_narrow_)) return false;
  const double steps = narrow_steps(), squares = r_.largest * r_.largest;
  if (m_.one_pass_like && !(steps * 4 * squares < little * whole_)) return false;
  return steps * steps * squares < little * little * whole_ && steps < little;
}

QuickRow::Known QuickRow::bounded_by_most() const {
  Known known;
  const double overflow = m_.statistics.overflow, flushed = m_.flush ? m_.statistics.eta : 0;
  const bool single = m_.n == 1 && !m_.rms;
  if (m_.statistics_lose && r_.largest >= overflow) {
    known.lost = known.lost_mean = !precise_;
    return known;
  }
  known.lost = !precise_ && least_.lost * slack >= overflow;
  known.lost_mean = !precise_ && m_.variance != Variance::shifted && least_.lost_mean >= overflow;
  const double most_v = r_.variance * up + r_.variance_error, hi = most_v + most_.above + m_.epsilon_hi;
  if (!(most_.lost * up < overflow) || !(hi < overflow) || !(most_.lost < 1e290)) return known;
  const double above_zero = std::max(0.0, r_.variance * slack - r_.variance_error) - most_.below * up +
                            (m_.epsilon_lo * slack - flushed * up);
  // In a row of one element t is 0, whatever it is multiplied by; but other forms multiply x, and `shifted` rounds the
  // mean.
  const bool always_zero = single && m_.form == NormForm::centred && m_.variance != Variance::shifted;
  if (!(above_zero > 0) && !always_zero) {
    // Some d of either sign is then divided by what may be 0.
    const bool by_sign = least_.joint && least_.cv < 1 && !(least_.av > 0);
    known.undetermined = m_.n > 1 && (m_.rms || least_.dm > 0) && !by_sign &&
                         most_v - least_.below * slack + m_.epsilon_lo * up - flushed * slack < 0;
    return known;
  }
  if (!(whole_ > 0x1p-900) && !single) return known;
  if (single && (m_.statistics_lose || m_.normalise_loses_statistics || m_.normalise_loses_source || m_.flush))
    return known;
  if (m_.normalise_loses_statistics) {
    const double largest_root = (1 + m_.brought_root) / std::sqrt(above_zero) * up;
    if (!(m_.normalise.eta * largest_root < 0.49) ||
        !(std::sqrt(hi) * (1 + 2 * m_.statistics.u) * up < m_.normalise.overflow))
      return known;
  }
  known.determined = true;
  // One end is on the other side of 0 by no more than what the mean is off by.
  const double other_side = (most_.dm + most_.ed) * up / std::sqrt(std::max(above_zero, 0x1p-1000));
  // Past the range of double that end is an infinity, as is what any normalised row could give.
  const bool is_number = other_side * largest_gamma_ + largest_beta_ < 0x1p1023;
  known.narrow = narrow_if_mean_is_ && (always_zero || (other_side < 0.25 * std::sqrt(m_.n) && is_number)) &&
                 64 * m_.normalise.eta < 1;
  return known;
}

// Less by what the reference is off by, or more: false where less is nothing.
bool QuickRow::row_bounds(const Bounds& b, bool most, RowBounds& row) const {
  const double flushed = m_.flush ? m_.statistics.eta : 0;
  row.mean = static_cast<Wide>(r_.mean) + r_.mean_rest;
  row.variance = static_cast<Wide>(r_.variance) + r_.variance_rest;
  const double side = most ? 1 : -1, of_variance = 2 * r_.variance_error;
  row.dm = b.dm + side * r_.mean_error;
  row.ed = b.ed;
  row.joint = b.joint;
  const double gain = m_.epsilon_lo - flushed - b.av, spread = r_.variance + std::max(0.0, gain);
  row.cv = b.joint ? b.cv + side * (of_variance + 4 * b.dm * r_.mean_error) / spread : b.cv;
  row.av = b.av;
  row.lo = row.variance - (b.below + side * of_variance);
  row.hi = row.variance + (b.above + side * of_variance);
  row.bound_root(m_);
  return row.dm >= 0 && row.cv >= 0 && row.least > 0 && spread > 0 && row.lo <= row.variance && row.hi >= row.variance;
}

bool QuickRow::accept(std::span<const double> got, std::uint8_t* accepted) {
  if (accept_by_rule(got, accepted)) return true;
  if (!is_near_) return false;
  is_near_ = near_suffices_ = false;
  refer_variance(row_->x.data());
  whole_ = r_.variance + epsilon_;
  least_ = bounds(false);
  make_rule();
  return accept_by_rule(got, accepted);
}

bool QuickRow::accept_by_rule(std::span<const double> got, std::uint8_t* accepted) const {
  return accept_row(rule_, rule_.raised ? raised_.data() : row_->x.data(), gamma_, beta_, got.data(),
                    static_cast<Index>(m_.n), accepted);
}

Wide QuickRow::difference(Index column) const {
  return (static_cast<Wide>(row_->x[static_cast<std::size_t>(column)]) - r_.mean) - r_.mean_rest;
}

bool QuickRow::surely_overflows(Index column) const {
  if (precise_) return false;
  const auto i = static_cast<std::size_t>(column);
  const double apart = std::fabs(row_->x[i] - r_.mean) * slack - r_.mean_error - std::fabs(r_.mean_rest);
  const double p = std::max(0.0, apart) * rule_.scale * std::fabs(gamma_[i]) * slack, b = std::fabs(beta_[i]);
  const double threshold = std::min({m_.affine.overflow, overflow_threshold(m_.output), m_.storage.overflow});
  const bool same_side = (row_->x[i] > r_.mean) == ((gamma_[i] > 0) == (beta_[i] > 0));
  const double y = same_side ? p + b * slack : p - b * up;
  return std::isfinite(gamma_[i]) && std::isfinite(beta_[i]) && (p >= m_.affine.overflow || y >= threshold);
}

// In a narrow row |t| is at least (|d| - D) bottom, by the largest errors of its statistics, less the rounding errors
// after that.
void QuickRow::bound_infinities() {
  const Bounds b = bounds(true);
  bottom_ = slack / std::sqrt((r_.variance + r_.variance_error + b.above + m_.epsilon_hi) * (1 + b.cv) * up);
  mean_off_ = (b.dm + b.ed + r_.mean_error + std::fabs(r_.mean_rest)) * up;
  const double late =
      m_.relative + 4 * m_.of_reach + 2 * of_params_ + 4 * m_.affine.u + (m_.norm_rounded ? m_.storage.u : 0);
  bottom_ *= 1 - late;
}

bool QuickRow::surely_infinite(Index column, double got) const {
  if (!(bottom_ > 0)) return false;
  const auto i = static_cast<std::size_t>(column);
  const double away = row_->x[i] - r_.mean, least = std::fabs(away) * (1 - 8 * bit) - mean_off_;
  // Where the mean may be off by more than that, t may be of either sign, and no end tells of the other.
  if (!(std::fabs(away) * rule_.scale >= 1) || !(least > 0)) return false;
  const Wide p = static_cast<Wide>(std::copysign(least * bottom_, away)) * gamma_[i], b = beta_[i],
             y = p + ((p > 0) == (b > 0) ? b : b * 1.1L);
  return p * got > 0 && std::isinf(static_cast<double>(y)) && static_cast<double>(y) == got;
}

bool QuickRow::surely_inside(const Element& element, double got) const {
  RowBounds row;
  if ((m_.n == 1 && !m_.rms) || is_raised_ || !row_bounds(least_, false, row)) return false;
  Element same = element;
  same.error = -0x1p-60 *
               static_cast<double>(std::fabs(element.d));  // interval_of() adds this for a reference that is no better
  const Interval part = interval_of(m_, row, same);
  return judge_element(part.enclosure, round_, got) == Outcome::inside;
}
bool QuickRow::surely_not_wide(const Element& element) const {
  RowBounds row;
  return row_bounds(most_, true, row) && !holds_hull(interval_of(m_, row, element).enclosure);
}

// Uses the interval of accept() without the part that rounding to out adds: the ends are those before it.
bool QuickRow::surely_wide() const {
  if (precise_) return false;
  const double root_n = std::sqrt(m_.n) * up;
  for (std::size_t i = 0; i < static_cast<std::size_t>(m_.n); ++i) {
    const double g = std::fabs(gamma_[i]), b = std::fabs(beta_[i]);
    const double p = (row_->x[i] - r_.mean) * rule_.scale * gamma_[i], y = p + beta_[i], size = std::fabs(p);
    const double of_t = std::max(g * rule_.constant[0] + size * rule_.proportional[0],
                                 g * rule_.constant[1] + size * rule_.proportional[1]);
    const double radius = of_t + (b > 0 ? std::fabs(y) * rule_.u_affine : 0) + b * rule_.of_beta;
    const double hull = g * root_n;
    if (!(hull > b * 0x1p-44) || !(radius * slack >= size + hull + b * 0x1p-44)) return false;
  }
  return true;
}

}  // namespace attest::oracle::layer_norm
