#include "oracle/layer_norm/element.hpp"

#include <algorithm>
#include <cmath>

namespace attest::oracle::layer_norm {
namespace {

constexpr Wide no_end = std::numeric_limits<Wide>::infinity();

struct Range {
  Wide lo, hi;
  [[nodiscard]] Wide magnitude() const { return std::max(std::fabs(lo), std::fabs(hi)); }
  void hold(Wide x) {
    lo = std::min(lo, x);
    hi = std::max(hi, x);
  }
  void widen(Wide relative, Wide absolute) {
    lo -= relative * std::fabs(lo) + absolute;
    hi += relative * std::fabs(hi) + absolute;
  }
  void widen(Wide absolute) { widen(0, absolute); }
};

Wide product(Wide a, Wide b) { return a == 0 || b == 0 ? 0 : a * b; }  // 0 times infinity: nothing is there to grow

// Extremes over |delta| <= dm of (d - delta) / sqrt(s (variance + delta^2)).
void hold_joint(Wide d, Wide dm, Wide variance, Wide s, Range& range) {
  const auto at = [&](Wide delta) -> Wide {
    const Wide numerator = d - delta, square = s * (variance + delta * delta);
    if (numerator == 0) return 0;
    return square > 0 ? numerator / std::sqrt(square) : std::copysign(no_end, numerator);
  };
  range.hold(at(-dm));
  range.hold(at(dm));
  if (d == 0 || !(variance <= dm * std::fabs(d))) return;  // the turning point lies outside
  range.hold(variance > 0 ? std::copysign(std::sqrt((1 + d * d / variance) / s), d) : std::copysign(no_end, d));
}

class Builder {
 public:
  Builder(const Numbers& numbers, const RowBounds& row, const Element& element)
      : m_(numbers), row_(row), e_(element), nonfinite_(row.lost_mean || row.lost_variance || !(row.least > 0)) {}

  Interval operator()() {
    difference();
    gamma();
    normalised();
    affine();
    return finished();
  }

 private:
  // Bounds the error of x - m, beside delta, in the normalise format.
  void difference() {
    const Unit &n = m_.normalise, &s = m_.statistics;
    magnitude_ = std::fabs(e_.x) + std::fabs(row_.mean) + row_.dm;
    e_d_ = row_.ed + e_.error + (m_.flush ? 3 * n.eta : 0) + std::fabs(e_.d) * 0x1p-60L;
    if (m_.normalise_loses_statistics) e_d_ += n.u * (std::fabs(row_.mean) + row_.dm) + n.eta;
    if (m_.normalise_loses_source) e_d_ += n.u * std::fabs(e_.x) + n.eta;
    reach_ = std::fabs(e_.d) + row_.dm + e_d_;
    if (reach_ >= n.overflow || (m_.normalise_loses_statistics && std::fabs(row_.mean) + row_.dm >= n.overflow) ||
        (m_.normalise_loses_source && std::fabs(e_.x) >= n.overflow))
      nonfinite_ = true;
    root_ = m_.root;
    if (m_.normalise_loses_statistics) {
      root_ = both<Wide>(root_, n.u);
      if (row_.largest_root * (1 + root_) >= n.overflow) nonfinite_ = true;
      if (std::sqrt(row_.hi + m_.epsilon_hi) * (1 + 2 * s.u) >= n.overflow) infinite_root_ = true;
    }
    r_ = row_.largest_root * (1 + root_);
  }

  void gamma() {
    const Unit& a = m_.affine;
    gamma_ = e_.has_gamma ? m_.gamma_offset + static_cast<Wide>(e_.gamma) : 1;
    if (!e_.has_gamma) return;
    const bool offset = m_.gamma_offset != 0;
    // 1 + gamma is rounded, or gamma meets t before t is added.
    if (offset) gamma_relative_ += a.u * std::max(std::fabs(gamma_), std::fabs(static_cast<Wide>(e_.gamma)));
    if (offset) gamma_absolute_ += (m_.flush ? 3 : 1) * a.eta;
    if (m_.affine_loses_params) {
      gamma_relative_ += a.u * std::fabs(static_cast<Wide>(e_.gamma)) * (1 + a.u);
      gamma_absolute_ += a.eta;
      if (std::fabs(e_.gamma) >= a.overflow) nonfinite_ = true;
    }
    const double least = std::max(smallest_normal(a.format), smallest_normal(m_.params));
    if (m_.flush && e_.gamma != 0 && std::fabs(e_.gamma) < least)
      gamma_flushed_ = std::fabs(static_cast<Wide>(e_.gamma));
    gamma_most_ = std::fabs(gamma_) + gamma_relative_ + gamma_absolute_ + gamma_flushed_;
  }

  void normalised() {
    const Unit &n = m_.normalise, &s = m_.statistics;
    const Wide flushed = m_.flush ? s.eta : 0;
    t_ = {no_end, -no_end};
    if (row_.joint && row_.cv < 1) {
      const Wide gain = m_.epsilon_lo - flushed - row_.av, variance = row_.variance, cv = row_.cv;
      const Wide low = gain >= 0 ? variance + gain : std::max<Wide>(0, variance + gain / (1 - cv));
      const Wide high = variance + m_.epsilon_hi + row_.av + flushed;
      for (const Wide d : {e_.d - e_d_, e_.d + e_d_}) {
        hold_joint(d, row_.dm, low, 1 - cv, t_);
        hold_joint(d, row_.dm, high, 1 + cv, t_);
      }
      if (!(row_.least > 0) && row_.av > 0 && reach_ > 0 && !single()) t_ = {-no_end, no_end};
    } else {
      const Wide top = row_.largest_root, bottom = 1 / std::sqrt(row_.hi + m_.epsilon_hi + flushed);
      for (const Wide d : {e_.d - row_.dm - e_d_, e_.d + row_.dm + e_d_}) {
        t_.hold(product(d, top));
        t_.hold(product(d, bottom));
      }
    }
    if (single() && reach_ == 0) {
      t_ = {0, 0};
    } else {
      Wide relative = both<Wide>(root_, compounded(2, n.u)), absolute = (m_.flush ? 2 : 1) * n.eta;
      if (m_.normalise_loses_statistics) {  // the root, or its reciprocal, may be subnormal there
        const Wide q = n.eta * r_;
        if (q < 0.5L)
          relative = (relative + q) / (1 - q);
        else
          t_ = {-no_end, no_end}, nonfinite_ = true;
        absolute += n.eta * reach_;
      }
      t_.widen(relative, absolute);
    }
    if (m_.form == NormForm::scale_bias) {
      t_.widen(0, magnitude_ * r_ * compounded(4, n.u) + (m_.flush ? 4 : 2) * n.eta);
      if (magnitude_ * r_ >= n.overflow) nonfinite_ = true;
    }
    if (m_.norm_rounded) {
      if (t_.magnitude() >= m_.storage.overflow) nonfinite_ = true;
      t_.widen(m_.storage.u, m_.storage.eta);
    }
    if (m_.affine_loses_normalise && !makes_scale_first()) {
      if (t_.magnitude() >= m_.affine.overflow) nonfinite_ = true;
      t_.widen(m_.affine.u, m_.affine.eta);
    }
  }

  void affine() {
    const Unit& a = m_.affine;
    const Wide beta = e_.has_beta ? static_cast<Wide>(e_.beta) : 0;
    p_ = {product(t_.lo, gamma_), product(t_.hi, gamma_)};
    if (p_.lo > p_.hi) std::swap(p_.lo, p_.hi);
    const bool vanishes = gamma_ == 0 && gamma_flushed_ == 0 && gamma_absolute_ == 0 && gamma_relative_ == 0;
    const Wide t = t_.magnitude();
    if (makes_scale_first()) overflow_of_scale_first();
    if (m_.flush && gamma_flushed_ > 0) {
      p_.hold(product(t_.lo, m_.gamma_offset));
      p_.hold(product(t_.hi, m_.gamma_offset));
    }
    if (!vanishes) {
      p_.widen(product(t, gamma_relative_ * (1 + a.u) + gamma_absolute_));
      if (makes_scale_first()) scale_first();
      p_.widen(keeps_bits() ? 0 : a.u * (1 + a.u), (m_.flush ? 3 : 1) * a.eta);
    }
    if (p_.magnitude() >= a.overflow) nonfinite_ = true;
    y_ = {p_.lo + beta, p_.hi + beta};
    Wide more = m_.flush ? 2 * a.eta : 0;
    if (e_.has_beta && m_.affine_loses_params) {
      more += a.u * std::fabs(beta) + a.eta;
      if (std::fabs(e_.beta) >= a.overflow) nonfinite_ = true;
    }
    if (m_.flush_inputs && std::fabs(e_.beta) < smallest_normal(m_.params)) more += std::fabs(beta);
    if (m_.form == NormForm::folded && !vanishes) {
      more += a.u * (folded_ + std::fabs(beta)) * (1 + a.u);
      if (folded_ * (1 + compounded(8, a.u)) + std::fabs(beta) >= a.overflow) nonfinite_ = true;
    }
    const bool exact = vanishes && beta == 0;
    if (exact) {
      y_ = {0, 0};
    } else {
      const Wide size = std::fabs(beta);
      const bool adds = beta != 0 || m_.form == NormForm::folded;
      y_.widen(adds ? a.u : 0, more + (m_.output == Format::f64 ? 0x1p-60L : 0x1p-52L) * size);
      y_.widen(m_.output == Format::f64 ? 0x1p-60L : 0x1p-52L, 0);
    }
    if (y_.magnitude() >= std::min(a.overflow, overflow_threshold(m_.output)) || y_.magnitude() >= m_.storage.overflow)
      nonfinite_ = true;
  }

  // Tells whether the affine format may change what r gamma is made of. r gamma is rounded before x or x - m meets it,
  // which may be far larger than t: if the mean or r does not fit the affine format, the product is NaN even where
  // gamma is 0.
  [[nodiscard]] bool affine_loses() const {
    return m_.affine_loses_source || m_.affine_loses_statistics || m_.affine_loses_normalise;
  }
  void overflow_of_scale_first() {
    const Unit& a = m_.affine;
    folded_ = product(magnitude_, r_ * gamma_most_);
    // r as the affine format holds it, which may round it up.
    const Wide r = affine_loses() ? r_ * (1 + a.u) + a.eta : r_;
    if (r * gamma_most_ >= a.overflow) nonfinite_ = true;
    const Wide largest = m_.form == NormForm::folded
                             ? std::max(std::fabs(row_.mean) + row_.dm, static_cast<Wide>(std::fabs(e_.x)))
                             : reach_;
    if (affine_loses() && std::max(r_, largest * (1 + m_.normalise.u)) >= a.overflow) nonfinite_ = true;
  }

  void scale_first() {
    const Unit& a = m_.affine;
    const bool loses = affine_loses();
    const Wide g = gamma_most_, rg = r_ * g, eta = (m_.flush ? 2 : 1) * a.eta;
    if (m_.form == NormForm::weighted_scale) {
      // x - m in the affine format, the root in it, their product with gamma.
      p_.widen(product(reach_, rg) * compounded(loses ? 4 : 1, a.u) + eta * reach_);
      if (loses) p_.widen(eta * (rg + product(reach_, g)));
      return;
    }
    p_.widen(folded_ * compounded(loses ? 8 : 5, a.u) + eta * (2 + magnitude_));
    if (loses) p_.widen(eta * (2 * rg + magnitude_ * g));
  }

  Interval finished() {
    Interval interval;
    Enclosure& e = interval.enclosure;
    const Wide scale =
        row_.variance + m_.epsilon_lo > 0 ? 1 / std::sqrt(row_.variance + static_cast<Wide>(epsilon())) : 0;
    e.y = static_cast<double>(e_.d * scale * gamma_ + (e_.has_beta ? e_.beta : 0));
    y_.widen((y_.hi - y_.lo) * 0x1p-44L);  // double rounds errors, too
    if (!(y_.lo <= y_.hi)) y_ = {-no_end, no_end};
    const bool anything_after_clamp = row_.lost_variance && m_.clamp;
    e.undetermined = anything_after_clamp || (std::isinf(y_.lo) && std::isinf(y_.hi));
    e.lo = static_cast<double>(y_.lo);
    e.hi = static_cast<double>(y_.hi);
    const double hull = static_cast<double>(std::fabs(gamma_)) * std::sqrt(m_.n), beta = e_.has_beta ? e_.beta : 0;
    e.hull_lo = beta - hull;
    e.hull_hi = beta + hull;
    e.nonfinite_ok = nonfinite_;
    interval.beta_ok = row_.lost_variance || infinite_root_;
    interval.beta = beta;
    interval.affine = m_.affine.format;
    interval.beta_may_flush =
        m_.flush && std::fabs(beta) < std::max(smallest_normal(m_.affine.format), smallest_normal(m_.params));
    return interval;
  }

  [[nodiscard]] double epsilon() const { return (m_.epsilon_lo + m_.epsilon_hi) / 2; }
  // A product with gamma that is exact, if it is no subnormal.
  [[nodiscard]] bool keeps_bits() const {
    return !makes_scale_first() && (!e_.has_gamma || (m_.gamma_offset == 0 && is_power_of_two(std::fabs(e_.gamma))));
  }
  [[nodiscard]] bool single() const { return m_.n == 1 && !m_.rms; }
  [[nodiscard]] bool makes_scale_first() const {
    return m_.form == NormForm::folded || m_.form == NormForm::weighted_scale;
  }

  const Numbers& m_;
  const RowBounds& row_;
  const Element& e_;
  bool nonfinite_, infinite_root_ = false;
  Wide magnitude_ = 0, e_d_ = 0, reach_ = 0, root_ = 0, r_ = 0;
  Wide gamma_ = 1, gamma_relative_ = 0, gamma_absolute_ = 0, gamma_flushed_ = 0, gamma_most_ = 1, folded_ = 0;
  Range t_{}, p_{}, y_{};
};

}  // namespace

bool Interval::is_beta(double got, const Rounding& round) const {
  if (!beta_ok || !std::isfinite(got)) return false;
  for (int format = 0; format < format_count; ++format)
    if (!loses(static_cast<Format>(format), affine) && got == round(round_to(static_cast<Format>(format), beta)))
      return true;
  return beta_may_flush && got == 0;
}

Wide least_scale(const Numbers& m, const RowBounds& row, const Element& e, bool products) {
  const Wide gamma = std::fabs(e.has_gamma ? m.gamma_offset + static_cast<Wide>(e.gamma) : 1);
  if ((m.form != NormForm::weighted_scale && m.form != NormForm::folded) || gamma == 0) return no_end;
  const Wide root = std::max<Wide>(0, 1 - both<Wide>(m.root, compounded(4, m.affine.u)));
  const Wide scale = root * gamma / std::sqrt(row.hi + m.epsilon_hi);
  if (!products || m.form != NormForm::folded) return scale;
  Wide factor = 1;
  if (e.x != 0) factor = std::min(factor, std::fabs(e.x) - e.error - row.ed);
  if (row.mean != 0 || row.dm != 0) factor = std::min(factor, std::fabs(row.mean) - row.dm);
  return scale * std::max<Wide>(0, factor);
}

Interval interval_of(const Numbers& numbers, const RowBounds& row, const Element& element) {
  return Builder(numbers, row, element)();
}

}  // namespace attest::oracle::layer_norm
