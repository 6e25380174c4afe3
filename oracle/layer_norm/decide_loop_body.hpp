#pragma once
// Body of RowLoops::decide, for the files that make it: interval_of() in lanes.
#include "oracle/half_gap.hpp"
#include "oracle/lane_root.hpp"
#include "oracle/layer_norm/quick_loops.hpp"

namespace attest::oracle::layer_norm {

// Ends of eight intervals.
template <class L>
struct Ends {
  L lo, hi;
  ATTEST_LANE_FN void widen(const L& relative, const L& absolute) {
    lo = lo - (relative * abs(lo) + absolute);
    hi = hi + (relative * abs(hi) + absolute);
  }
  ATTEST_LANE_FN void hold(const L& x) {
    lo = min(lo, x);
    hi = max(hi, x);
  }
  [[nodiscard]] ATTEST_LANE_FN L size() const { return max(abs(lo), abs(hi)); }
};

// The extremes of (d - delta) / sqrt(s (variance + delta^2)) where delta = -variance / d lies within dm.
template <class L>
ATTEST_LANE_FN void hold_turning(Ends<L>& t, const L& d, double dm, double variance, double scale) {
  const auto between = abs(d) * dm >= L(variance);
  if (bits_of(between) == 0) return;
  const L most = root<L>((1 + d * d * (1 / variance)) * scale), at = select(d < L(0), L(0) - most, most);
  t.lo = select(between, min(t.lo, at), t.lo);
  t.hi = select(between, max(t.hi, at), t.hi);
}

template <class L>
void RowLoops<L>::decide(const DecideRule& rule, const DecideColumns& columns, const double* x, const double* error,
                         const double* d, const double* got, Index n, std::uint8_t* decided) {
  using Form = attest::layer_norm::NormForm;
  constexpr double surely = 1 - 0x1p-40;
  constexpr double own = 0x1p-48;  // relative error of these lines themselves
  const bool scale_first = rule.form == Form::folded || rule.form == Form::weighted_scale;
  for (Index i = 0; i < n; i += lane_count) {
    const L here = load<L>(x + i), difference = load<L>(d + i), out = load<L>(got + i);
    const L g = load<L>(columns.gamma + i), b = load<L>(columns.beta + i);
    const L gamma_most = load<L>(columns.gamma_most + i), live = load<L>(columns.live + i);
    const L e = load<L>(error + i) + rule.difference + abs(here) * rule.difference_of_x;
    const L reach = abs(difference) + rule.dm + e, magnitude = abs(here) + rule.mean;
    const auto some = g != L(0);
    const auto number = abs(out) <= L(rule.largest_out);
    auto beta_left = number & (out != out);
    if (rule.beta_left)
      beta_left = number & ((out == load<L>(columns.beta_left + i)) |
                            ((out == L(0)) & (load<L>(columns.zero_left + i) != L(0))));
    beta_left = beta_left & (g == g);  // interval_of() knows nothing where gamma or beta is NaN
    auto undetermined = beta_left, inside = beta_left & ~beta_left, wide = inside;
    if (rule.open) {
      undetermined = g == g;
    } else if (rule.unbounded) {
      auto either = reach > L(0);
      if (!rule.always_unbounded) either = either & (abs(difference) < (rule.dm + e) * surely);
      undetermined = undetermined | (some & (g == g) & either);
    } else {
      const L left = difference - (e + rule.dm), right = difference + (e + rule.dm);
      Ends<L> t{min(left * rule.top, left * rule.bottom), max(right * rule.top, right * rule.bottom)};
      if (rule.turns)
        for (const L& side : {difference - e, difference + e}) {
          hold_turning<L>(t, side, rule.dm, rule.low, rule.low_scale);
          hold_turning<L>(t, side, rule.dm, rule.high, rule.high_scale);
        }
      auto nonfinite = reach * surely >= L(rule.reach_overflow);
      if (rule.nonfinite) nonfinite = reach == reach;
      if (rule.difference_of_x > 0) nonfinite = nonfinite | (abs(here) >= L(rule.reach_overflow));
      t.widen(L(rule.t_relative), rule.t_absolute + reach * rule.t_of_reach);
      if (rule.form == Form::scale_bias) {
        t.widen(L(0), magnitude * rule.t_of_magnitude + rule.t_late);
        nonfinite = nonfinite | (magnitude * (rule.r * surely) >= L(rule.reach_overflow));
      }
      nonfinite = nonfinite | (t.size() * surely >= L(rule.t_overflow));
      t.widen(L(rule.stored_u), L(rule.stored_eta));
      nonfinite = nonfinite | (t.size() * surely >= L(rule.t2_overflow));
      t.widen(L(rule.narrow_u), L(rule.narrow_eta));

      const L one = t.lo * g, other = t.hi * g;
      Ends<L> p{min(one, other), max(one, other)};
      const auto flushed = load<L>(columns.gamma_flushed + i) > L(0);
      p.lo = select(flushed, min(p.lo, min(t.lo * rule.gamma_offset, t.hi * rule.gamma_offset)), p.lo);
      p.hi = select(flushed, max(p.hi, max(t.lo * rule.gamma_offset, t.hi * rule.gamma_offset)), p.hi);
      const L size = t.size();
      L more = load<L>(columns.gamma_error + i) * size;
      L folded = L(0);
      if (scale_first) {
        const L length = rule.form == Form::folded ? magnitude : reach;
        folded = magnitude * (rule.r * gamma_most);
        more += length * gamma_most * (rule.p_product + rule.p_both) + length * rule.p_length +
                gamma_most * rule.p_gamma + rule.p_late;
        nonfinite = nonfinite | (gamma_most * (rule.r * surely) >= L(rule.p_overflow));
      }
      p.widen(L(0), more * live);
      p.widen(load<L>(columns.product_error + i) * live, rule.p_absolute * live);
      nonfinite = nonfinite | (p.size() * surely >= L(rule.p_overflow));
      Ends<L> y{p.lo + b, p.hi + b};
      L late = load<L>(columns.beta_error + i);
      if (rule.form == Form::folded) {
        late += (folded + abs(b)) * live * (rule.a_u * (1 + rule.a_u));
        nonfinite = nonfinite | (((folded + abs(b)) * live) * surely >= L(rule.p_overflow));
      }
      y.widen(load<L>(columns.sum_error + i), late + abs(b) * rule.own);
      y.widen(L(rule.own), L(0));
      nonfinite = nonfinite | (y.size() * surely >= L(rule.y_overflow));
      const L span = (y.hi - y.lo) * 0x1p-44;
      y.lo = y.lo - span;
      y.hi = y.hi + span;

      const L least = rule.own_least * (gamma_most + 1) * select(b == L(0), live, L(1));
      const L off = own * (reach * (rule.top * gamma_most) + p.size() + more + abs(b) + late) + least;
      const auto below = out < y.lo;
      const L gap = half_gap(out, select(below, y.lo, y.hi), rule.u_out, rule.eta_out);
      inside = number & (y.lo + off <= out + gap) & (out - gap <= y.hi - off);
      const L hull = abs(g) * rule.hull;
      // A hull that is lost beside beta is a point, and no interval is wide for it.
      wide = (hull > abs(b) * 0x1p-52) & (y.lo + off <= b - hull) & (y.hi - off >= b + hull);
      const auto not_wide = (y.lo - off > b - hull) | (y.hi + off < b + hull) | (hull <= abs(b) * 0x1p-55);
      inside = inside & (wide | not_wide);
      // Near the end of double's own range these lines may overflow where interval_of() does not.
      const auto in_range = y.size() + p.size() + hull < L(1e290);
      undetermined = undetermined | (nonfinite & ~number & in_range);
      inside = inside & in_range;
    }
    const unsigned in = bits_of(inside), is_wide = bits_of(wide), open = bits_of(undetermined);
    for (int lane = 0; lane < lane_count; ++lane)
      decided[i + lane] = (open >> lane & 1) ? Decided::undetermined
                          : (in >> lane & 1) ? ((is_wide >> lane & 1) ? Decided::wide : Decided::inside)
                                             : Decided::unknown;
  }
}

}  // namespace attest::oracle::layer_norm
