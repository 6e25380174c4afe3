#include "certify/layer_norm/interval.hpp"

#include <algorithm>
#include <cmath>

#include "certify/layer_norm/facts.hpp"

namespace attest::certify::layer_norm {
namespace {

using attest::layer_norm::NormForm;

// An interval that grows. Infinite ends are not finite balls.
struct Span {
  Ball lo, hi;
  bool open = false;  // nothing bounds it
  bool empty = true;
  void hold(const Ball& value) {
    if (!value.is_finite()) open = true;
    lo = empty ? value : min(lo, value);
    hi = empty ? value : max(hi, value);
    empty = false;
  }
  void widen(const Ball& relative, const Ball& absolute) {
    lo = lo - (relative * abs(lo) + absolute);
    hi = hi + (relative * abs(hi) + absolute);
  }
  [[nodiscard]] Ball magnitude() const { return max(abs(lo), abs(hi)); }
};

}  // namespace

Interval Facts::element(std::size_t i) const {
  Interval result;
  const auto leave_open = [&](const std::string& why) {
    if (!result.nonfinite) result.nonfinite = why;
    result.undetermined = why;
  };
  if (!finite || !std::isfinite(gamma[i]) || !std::isfinite(beta[i])) {
    result.nan = contract.nan == NanRule::propagates && (has_nan || std::isnan(gamma[i]) || std::isnan(beta[i]));
    leave_open("an input is not finite");
    return result;
  }
  if (unknown) {
    leave_open(*unknown);
    return result;
  }
  const auto permit = [&](const std::string& why) {
    if (!result.nonfinite) result.nonfinite = why;
  };
  const Unit &N = a_norm, &A = a_affine;
  if (lost_mean) permit(*lost_mean);
  if (lost_variance) permit(*lost_variance);
  if (may_be_zero) permit("the variance and epsilon may add up to 0");

  // Section 4: the difference.
  Ball off = ed + Ball(error[i]) + (flush ? 3 * N.eta : Ball(0));
  if (norm_loses_s) off += N.u * (abs(mean) + dm) + N.eta;
  if (norm_loses_source) off += N.u * Ball(std::fabs(x[i])) + N.eta;
  const Ball reach = abs(d[i]) + dm + off, magnitude = Ball(std::fabs(x[i])) + abs(mean) + dm;
  if (not_below(reach, N.overflow) || (norm_loses_s && not_below(abs(mean) + dm, N.overflow)) ||
      (norm_loses_source && not_below(Ball(std::fabs(x[i])), N.overflow)))
    permit("a difference from the mean may overflow");

  // The reciprocal root.
  Ball rel = root, top = may_be_zero ? Ball(0) : 1 / sqrt(least);
  bool root_may_be_infinite = false;
  if (norm_loses_s) {
    rel = (1 + root) * (1 + N.u) - 1;
    if (may_be_zero || not_below(top * (1 + rel), N.overflow)) permit("the reciprocal root may overflow");
    root_may_be_infinite = not_below(sqrt(v_hi + eps_hi) * (1 + 2 * s.u), N.overflow);
  }
  const Ball r = top * (1 + rel);

  // The normalised value.
  Span t;
  const Ball flushed = flush ? s.eta : Ball(0);
  const bool single = n == 1 && !rms, nothing = single && !certainly_less(0, reach);
  if (nothing) {
    t.hold(0);
  } else if (joint && certainly_less(cv, 1)) {
    const Ball gain = eps_lo - flushed - av;
    const Ball low = certainly_less(gain, 0) ? larger_of(0, variance + gain / (1 - cv)) : variance + gain;
    const Ball high = variance + eps_hi + av + flushed;
    for (const auto& [V, share] : {std::pair{low, 1 - cv}, std::pair{high, 1 + cv}})
      for (const Ball& from : {d[i] - off, d[i] + off}) {
        for (const Ball& delta : {-dm, dm}) {
          const Ball numerator = from - delta, square = share * (V + squared(delta));
          if (!certainly_less(0, abs(numerator)))
            t.hold(0);
          else if (certainly_less(0, square))
            t.hold(numerator / sqrt(square));
          else
            t.open = true;
        }
        if (certainly_less(dm * abs(from), V) || !certainly_less(0, abs(from))) continue;
        if (certainly_less(0, V)) {
          const Ball turning = sqrt((1 + squared(from) / V) / share);
          t.hold(certainly_less(from, 0) ? -turning : turning);
        } else {
          t.open = true;
        }
      }
    if (may_be_zero && certainly_less(0, av) && certainly_less(0, reach)) t.open = true;
  } else {
    const Ball bottom = 1 / sqrt(v_hi + eps_hi + flushed);
    for (const Ball& from : {d[i] - dm - off, d[i] + dm + off}) {
      t.hold(from * bottom);
      if (!may_be_zero)
        t.hold(from * top);
      else if (certainly_less(0, abs(from)))
        t.open = true;
      else
        t.hold(0);
    }
  }
  if (!nothing && !t.open) {
    Ball relative = (1 + rel) * (1 + compounded(2, N.u)) - 1, absolute = (flush ? 2 : 1) * N.eta;
    if (norm_loses_s) {
      const Ball q = N.eta * r;
      if (may_be_zero || !certainly_less(q, 0.5)) {
        t.open = true;
        permit("the root may vanish in the normalise format");
      } else {
        relative = (1 + relative) / (1 - q) - 1;
      }
      absolute += N.eta * reach;
    }
    t.widen(relative, absolute);
  }
  const bool scale_bias = how.form == NormForm::scale_bias && !rms;
  if (scale_bias) {
    if (may_be_zero) t.open = true;
    if (!t.open) t.widen(0, magnitude * r * compounded(4, N.u) + (flush ? 4 : 2) * N.eta);
    if (may_be_zero || not_below(magnitude * r, N.overflow)) permit("x times the reciprocal root may overflow");
  }
  const bool folded = how.form == NormForm::folded, early = folded || how.form == NormForm::weighted_scale;
  if (how.norm_rounded && !t.open) {
    if (not_below(t.magnitude(), storage.overflow)) permit("the normalised value may overflow");
    t.widen(storage.u, storage.eta);
  }
  if (affine_loses_norm && !early && !t.open) {
    if (not_below(t.magnitude(), A.overflow)) permit("the normalised value may overflow");
    t.widen(A.u, A.eta);
  }

  // gamma and beta.
  const double offset = contract.gamma_offset;
  const Ball g = has_gamma ? Ball(offset) + Ball(gamma[i]) : Ball(1), g_size = abs(Ball(gamma[i]));
  Ball g_rel, g_abs, g_lost;
  if (has_gamma && offset != 0) {
    g_rel += A.u * larger_of(abs(g), g_size);
    g_abs += (flush ? 3 : 1) * A.eta;
  }
  if (has_gamma && affine_loses_params) {
    g_rel += A.u * g_size * (1 + A.u);
    g_abs += A.eta;
    if (not_below(g_size, A.overflow)) permit("gamma does not fit the affine format");
  }
  if (has_gamma && flush && gamma[i] != 0 &&
      std::fabs(gamma[i]) < std::max(smallest_normal(A.format), smallest_normal(params)))
    g_lost = g_size;
  const Ball g_most = abs(g) + g_rel + g_abs + g_lost;
  const bool vanishes = !certainly_less(0, g_most);
  const Ball b = beta[i], rg = r * g_most;
  Ball folded_size;
  if (early) {
    const Ball held = affine_loses_any ? r * (1 + A.u) + A.eta : r;
    if (may_be_zero || not_below(held * g_most, A.overflow)) permit("r gamma may overflow");
    const Ball meets = folded ? larger_of(abs(mean) + dm, Ball(std::fabs(x[i]))) : reach;
    if (affine_loses_any && (may_be_zero || not_below(larger_of(r, meets * (1 + N.u)), A.overflow)))
      permit("x, the mean or the reciprocal root may not fit the affine format");
    if (!vanishes) folded_size = magnitude * rg;
  }

  // The affine part.
  Span y;
  bool open = t.open && !vanishes;
  if (early && may_be_zero && !vanishes && (affine_loses_any || certainly_less(0, folded ? magnitude : reach)))
    open = true;
  if (!open) {
    Span p;
    if (t.open) {
      p.hold(0);
    } else {
      p.hold(t.lo * g);
      p.hold(t.hi * g);
      if (certainly_less(0, g_lost)) {
        p.hold(t.lo * Ball(offset));
        p.hold(t.hi * Ball(offset));
      }
    }
    if (!vanishes) {
      p.widen(0, t.magnitude() * (g_rel * (1 + A.u) + g_abs));
      const Ball eta = (flush ? 2 : 1) * A.eta;
      if (how.form == NormForm::weighted_scale) {
        p.widen(0, reach * rg * compounded(affine_loses_any ? 4 : 1, A.u) + eta * reach);
        if (affine_loses_any) p.widen(0, eta * (rg + reach * g_most));
      }
      if (folded) {
        p.widen(0, folded_size * compounded(affine_loses_any ? 8 : 5, A.u) + eta * (2 + magnitude));
        if (affine_loses_any) p.widen(0, eta * (2 * rg + magnitude * g_most));
      }
      int unused = 0;
      const bool keeps = !early && (!has_gamma || (offset == 0 && std::fabs(std::frexp(gamma[i], &unused)) == 0.5));
      p.widen(keeps ? Ball(0) : A.u * (1 + A.u), (flush ? 3 : 1) * A.eta);
    }
    if (not_below(p.magnitude(), A.overflow)) permit("the product with gamma may overflow");
    y.hold(p.lo + b);
    y.hold(p.hi + b);
    Ball more = flush ? 2 * A.eta : Ball(0);
    if (has_beta && affine_loses_params) {
      more += A.u * abs(b) + A.eta;
      if (not_below(abs(b), A.overflow)) permit("beta does not fit the affine format");
    }
    if (flush_inputs && std::fabs(beta[i]) < smallest_normal(params)) more += abs(b);
    if (folded && !vanishes) {
      more += A.u * (folded_size + abs(b)) * (1 + A.u);
      if (not_below(folded_size * (1 + compounded(8, A.u)) + abs(b), A.overflow))
        permit("beta less m r gamma may overflow");
    }
    if (!(vanishes && beta[i] == 0)) y.widen(beta[i] != 0 || folded ? A.u : Ball(0), more);
    const Ball out_overflow = std::min(overflow_threshold(output), overflow_threshold(tensor));
    if (not_below(y.magnitude(), A.overflow) || not_below(y.magnitude(), out_overflow))
      permit("the result may overflow");
  } else {
    permit("nothing bounds the result");
    result.undetermined = "nothing bounds the normalised value";
  }
  if (lost_variance && how.clamp && !rms) result.undetermined = "a variance that overflowed may be clamped to 0";
  if (certainly_less(0, variance + Ball(epsilon))) result.exact = d[i] / sqrt(variance + Ball(epsilon)) * g + b;
  result.lo = y.lo;
  result.hi = y.hi;
  if (lost_variance || root_may_be_infinite) {
    for (int format = 0; format < format_count; ++format)  // the affine stage is as wide as promised, or wider
      if (!loses(static_cast<Format>(format), A.format))
        result.others.push_back(round_to(static_cast<Format>(format), beta[i]));
    if (flush && std::fabs(beta[i]) < std::max(smallest_normal(A.format), smallest_normal(params)))
      result.others.push_back(0);
  }
  return result;
}

Row::Row(const Contract& contract, const Inputs& inputs, Index row)
    : facts_(std::make_unique<Facts>(contract, inputs, row)) {}
Row::~Row() = default;

Interval Row::element(Index column) const { return facts_->element(static_cast<std::size_t>(column)); }

std::vector<Figure> Row::figures() const {
  const Facts& f = *facts_;
  return {{"n", std::to_string(f.n)},  {"H", f.additions.text()}, {"u", f.u.text()},       {"mean", f.mean.text()},
          {"v", f.variance.text()},    {"dm", f.dm.text()},       {"ed", f.ed.text()},     {"cv", f.cv.text()},
          {"av", f.av.text()},         {"v_lo", f.v_lo.text()},   {"v_hi", f.v_hi.text()}, {"eps_lo", f.eps_lo.text()},
          {"eps_hi", f.eps_hi.text()}, {"cr", f.root.text()}};
}

}  // namespace attest::certify::layer_norm
