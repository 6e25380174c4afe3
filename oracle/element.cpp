#include "oracle/element.hpp"

#include <algorithm>
#include <cmath>

#include "oracle/lanes.hpp"
#include "oracle/products.hpp"

namespace attest::oracle {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

// The smallest weight that no stage can flush to zero, so that it surely carries a NaN or an infinity of v along.
double sure_weight(const Policy& policy) {
  return std::max({0x1p-100, smallest_normal(policy[Stage::softmax]), smallest_normal(policy[Stage::weights]),
                   smallest_normal(policy[Stage::operand])});
}

struct Radius {
  double x, g, absolute;  // `absolute`: of x, what no magnitude scales
};

// Computes section 4 as far as it depends on a row and a combination alone. Growth is growth(), or no less. `in_box`:
// the weights lie in their box. `has_top`: the roundings that the key with the largest score meets are asked for, too.
using Grown = Row::OfColumns::Grown;
template <double (*Growth)(double) = growth>
Grown grown_of(const Numbers& m, const RowNumbers& row, double largest_sum, const Combination& how, double rho,
               bool in_box, bool has_top) {
  const double n = static_cast<double>(row.n);
  Grown grown{Growth(bounded(how.t * (1 + m.u_final))), 0, 0, 0, 0};
  if (has_top) grown.top = Growth(bounded(how.t_top * (1 + m.u_final)));
  double a = row.denominator_error(m, largest_sum, rho, how.sum_of_rounded);
  if (in_box) {
    if (const Additions& sums = row.of_values; sums.keys < n) {
      const double spared = m.spared_values(n, sums.keys) * (1 + m.u_final);
      grown.spared_all = Growth(bounded(how.t * (1 + m.u_final) - spared));
      if (has_top) grown.spared_top = Growth(bounded(how.t_top * (1 + m.u_final) - spared));
    }
    a = row.denominator_error_in_box(m, a, rho, how.sum_of_rounded);
  }
  grown.denominator = Growth(bounded(a * (1 + m.u_softmax)));
  return grown;
}

// Returns the radius added around the box for one combination. `magnitude` is Abar, `top` the share of it that the key
// with the largest score surely has; values are in units of 1/unit.
Radius radius_of(const Numbers& m, const RowNumbers& row, const Combination& how, const Grown& grown, double magnitude,
                 double top, double rho, double sum_abs, double max_abs, double unit, bool in_box) {
  const double n = static_cast<double>(row.n);
  // Products underflow one by one, or are cut block by block.
  const double products = m.pv_sums.any() && !m.flush ? 0 : (m.flush ? 2 : 1) * n;
  double absolute = m.division_excess() * (m.split_quotients(n) + (how.normalised_first ? 0 : 1)) * m.eta_pv * unit;
  if (how.normalised_first) {
    absolute += sum_abs * (m.eta_weights + (1 + m.division_excess()) * m.eta_softmax + m.eps0 * rho) +
                (products + 2) * m.eta_pv * unit;
  } else {
    absolute += (sum_abs * (m.eta_weights + 2 * m.eps0) + 2.2 * n * max_abs * std::max(m.eps1, row.rescaled) +
                 (products + 2 * row.r + 6) * m.eta_pv * unit) *
                    rho +
                4 * m.eta_pv * unit;
  }
  if (m.pv_sums.any()) {
    const double scale = how.normalised_first ? 1 : rho, factor = m.smallest_weight_factor;
    absolute += m.pv_sums.relative(n, row.blocks) * m.pv_sums.smallest * unit * scale +
                m.pv_sums.aligned(n, row.blocks, factor) * ((max_abs + factor * unit) * scale + 2 * unit);
  }
  if (m.operand_flushes) absolute += 2 * m.eta_operand * unit;
  if (m.merges) absolute += 2 * m.eta_partial * unit;
  if (m.flush) absolute += (2 * m.eta_pv + m.eta_partial) * unit;
  const double relative = grown.all;
  const double own = 4 * (n + 8) * 0x1p-53 * magnitude, once = absolute;
  absolute *= 1 + relative;  // sums round what underflows leave, too
  double x = relative * magnitude + absolute + own;
  if (top > 0) x -= (relative - grown.top) * top;
  if (in_box) {
    if (const Additions& sums = row.of_values; sums.keys < n) {
      // Keys that count for less than a rounding lose no more than their own size, as far as they were computed.
      const double all = grown.spared_all;
      double least = all * magnitude + (1 + relative) * (1 + relative) * (sums.rest * max_abs + once) + absolute + own;
      if (top > 0) least -= (all - grown.spared_top) * top;
      x = std::min(x, least);
    }
  }
  return {x, grown.denominator, absolute + own};
}

template <double (*Growth)(double) = growth>
Radius radius(const Numbers& m, const RowNumbers& row, double largest_sum, const Combination& how, double magnitude,
              double top, double rho, double sum_abs, double max_abs, double unit, bool in_box = false) {
  return radius_of(m, row, how, grown_of<Growth>(m, row, largest_sum, how, rho, in_box, top > 0), magnitude, top, rho,
                   sum_abs, max_abs, unit, in_box);
}

// Returns the least share that is left of a mean of values of one sign after the losses of its sums: the numerator
// keeps its share of all roundings, and the denominator, all of whose terms are positive, is too large by little.
double least_kept(const Numbers& m, const RowNumbers& row, double largest_sum, const Combination& how) {
  const double n = static_cast<double>(row.n);
  const double a = row.denominator_error(m, largest_sum, row.rho, how.sum_of_rounded) -
                   m.ln_loss_of_weights(n, row.blocks, 0) + m.ln_sum_too_large(n, m.u_softmax);
  return std::exp(-how.t * (1 + m.u_final) - a * (1 + m.u_softmax));
}

const Row::OfColumns& of_columns(const Call& call, Row& row) {
  if (row.of_columns) return *row.of_columns;
  const Numbers& m = call.numbers;
  Row::OfColumns& of = row.of_columns.emplace();
  of.count = row.combinations(call, of.ways);
  of.weight_sum = row.largest_sum(m);
  for (int w = 0; w < of.count; ++w)
    of.grown[w] = grown_of(m, row, of.weight_sum, of.ways[w], row.rho, true, of.ways[w].t_top < of.ways[w].t);
  of.each = std::exp(bounded(m.lazy + std::min(600.0, row.wrong_shift * row.z_all) + row.every_exp + m.u_weights));
  // Weights that are divided by their own sum, whichever way is taken.
  const bool divided = of.count == 1 && m.arithmetic.normalise_before && !m.merges;
  of.all =
      divided ? std::exp(bounded(of.ways[0].t + row.denominator_error(m, of.weight_sum, row.rho, false))) : infinity;
  of.coarse = m.sums_are_coarse(static_cast<double>(row.n));
  for (int w = 0; w < of.count && of.coarse; ++w) of.kept[w] = least_kept(m, row, of.weight_sum, of.ways[w]);
  of.lost = growth(m.loss_of_values(static_cast<double>(row.n), row.blocks, (m.pv_narrower ? 2 : 1) * row.r + 2) *
                   (1 + m.u_pv));
  return of;
}

}  // namespace

double largest_reach(const Call& call, const RowNumbers& row, double max_abs) {
  Combination ways[4];
  const int count = row.combinations(call, ways);
  const double n = static_cast<double>(row.n), weight_sum = call.numbers.exp_lazy * n * exp_most(bounded(row.g));
  double reach = 0;
  for (int w = 0; w < count; ++w) {
    const Radius r =
        radius<growth_most>(call.numbers, row, weight_sum, ways[w], max_abs, 0, row.rho, n * max_abs, max_abs, 1);
    reach = std::max(reach, r.x + r.g * (max_abs + r.x));
  }
  return reach;
}

const Row::Box* box_inside(const Call& call, Row& row, double max_abs) {
  const Numbers& m = call.numbers;
  if (row.kind != RowKind::ordinary || !row.facts.v_finite || m.operand_rounds || call.has_radii ||
      row.finite_undetermined)
    return nullptr;
  const Row::OfColumns& of = of_columns(call, row);
  // The radius around the box is finite, so that neither end of an enclosure is NaN, whatever the unit.
  constexpr double most = 1e200;
  const double sum_abs = static_cast<double>(row.n) * max_abs;
  const auto is_finite = [&](const Radius& r) { return r.x >= 0 && r.x + r.g * (max_abs + r.x) < most; };
  for (int w = 0; w < of.count; ++w) {
    if (!is_finite(radius_of(m, row, of.ways[w], of.grown[w], max_abs, 0, row.rho, sum_abs, max_abs, 1, true)))
      return nullptr;
    if (row.score_lost &&
        !is_finite(radius(m, row, of.weight_sum, of.ways[w], max_abs, 0, row.rho_lost, sum_abs, max_abs, 1)))
      return nullptr;
  }
  return of.count > 0 ? &row.box(call, of.ways[0].box) : nullptr;
}

bool fixed_by_row(const Call& call, const Row& row, Enclosure& out) {
  out.nonfinite_ok = row.nonfinite_ok;
  out.zero_ok = row.zero_ok;
  switch (row.kind) {
    case RowKind::ordinary:
      return false;
    case RowKind::must_be_nan:
      out.y = out.lo = out.hi = nan;
      out.expect = Expect::nan;
      return true;
    case RowKind::undetermined:
      out.y = nan;
      out.lo = -infinity;
      out.hi = infinity;
      out.undetermined = true;
      return true;
    case RowKind::empty:
      break;
  }
  out.empty_row = true;
  switch (call.contract->empty_row) {
    case EmptyRow::mean_v:
    case EmptyRow::mean_all:
      if (!row.keys.empty()) return false;
      [[fallthrough]];  // the mean of no values
    case EmptyRow::unspecified:
      out.y = nan;
      out.lo = -infinity;
      out.hi = infinity;
      out.undetermined = out.nonfinite_ok = true;
      break;
    case EmptyRow::zero:
      break;
    case EmptyRow::nan:
      out.y = out.lo = out.hi = nan;
      out.expect = Expect::nan;
      break;
  }
  return true;
}

double Column::box_extreme(const Row::Box& box, double y, double sign) const {
  const double hull = (sign > 0 ? of_.hull_hi : of_.hull_lo) * of_.unit;
  if (radius_.empty()) return extreme_mean(box, values(), y, sign, hull);
  ends_.resize(values().size());
  for (std::size_t t = 0; t < ends_.size(); t += lane_count) store(&ends_[t], load(&v_[t]) + sign * load(&radius_[t]));
  return extreme_mean(box, ends_, y, sign, hull);
}

double extreme_mean(const Row::Box& box, std::span<const double> values, double y, double sign, double hull) {
  return products::extreme_mean(box.lo.data(), box.hi.data(), values.data(), std::ssize(values), y, sign, hull);
}

std::span<const Column::Part> Column::parts(const Call& call, const Row& row) {
  const double weight_sum = row.largest_sum(call.numbers);
  for (Part& part : std::span(parts_, static_cast<std::size_t>(part_count_))) {
    Combination unshared = part.how;
    unshared.t -= unshared.shared;
    unshared.t_top = unshared.t;
    part.x_unshared = radius(call.numbers, row, weight_sum, unshared, part.mean_abs, 0, row.rho, of_.sum_abs,
                             of_.max_abs, of_.unit, true)
                          .x;
  }
  return {parts_, static_cast<std::size_t>(part_count_)};
}

// The least share of the mean of |v| that the key with the largest score has anywhere in the box.
double Column::least_top(const Row& row, const Row::Box& box) const {
  double least = infinity;
  for (const std::size_t t : row.tops) {
    const double magnitude = std::fabs(v_[t]) - (radius_.empty() ? 0 : radius_[t]);
    least = std::min(least, box.lo[t] * std::max(0.0, magnitude));
  }
  return row.tops.empty() ? 0 : least / box.hi_sum;
}

Enclosure Column::hull(const Call& call, Row& row, Index b, Index h, Index column) {
  Enclosure out;
  out.undetermined = true;
  out.nonfinite_ok = true;
  if (row.kind != RowKind::ordinary) return out;
  read(call, row, b, h, column);
  const EmptyRow empty = call.contract->empty_row;
  const bool fixed = empty == EmptyRow::zero || empty == EmptyRow::nan;
  if (!of_.finite || !masked_finite_ || (row.finite_undetermined && !fixed) || !(row.rho_lost < infinity)) return out;
  const double lo = of_.hull_lo * of_.unit, hi = of_.hull_hi * of_.unit;
  double spread = 0;
  // A factor of rescaling that leaves too much of a weight leaves it in the numerator and in the sum: the result is the
  // mean of other weights. Where weights are normalised first, their sum alone may be too large; the output then lies
  // between a mean and 0.
  const Numbers& m = call.numbers;
  RowNumbers numbers = row;
  numbers.rescaled = m.eps_lazy;
  const bool sum_alone = row.rescaled > 2 * m.eps_lazy && m.arithmetic.divides_first();
  Combination ways[4];
  const int count = row.combinations(call, ways);
  const double weight_sum = row.largest_sum(m);
  for (int w = 0; w < count; ++w) {
    const Radius r =
        radius(m, numbers, weight_sum, ways[w], of_.max_abs, 0, row.rho_lost, of_.sum_abs, of_.max_abs, of_.unit);
    const double reach = r.x + r.g * (of_.max_abs + r.x);
    if (!(reach <= spread)) spread = reach;  // NaN stays, and then nothing is judged
    if (std::isnan(spread)) return out;
  }
  out.y = out.hull_lo = of_.hull_lo;
  out.hull_hi = of_.hull_hi;
  out.lo = (lo - spread) / of_.unit;
  out.hi = (hi + spread) / of_.unit;
  if (row.finite_undetermined || row.zero_ok || sum_alone) {
    out.lo = std::min(out.lo, 0.0);
    out.hi = std::max(out.hi, 0.0);
  }
  out.undetermined = !(out.lo <= out.hi);
  return out;
}

double Column::sum_of_products(const Row& row) const {
  Lanes products = fill(0);
  for (std::size_t t = 0; t < values().size(); t += lane_count) products += load(&row.p[t]) * load(&v_[t]);
  return sum(products);
}

Enclosure Column::evaluate(const Call& call, Row& row, Index b, Index h, Index column) {
  Enclosure out;
  if (fixed_by_row(call, row, out)) {
    if (row.kind == RowKind::empty && looks_at_masked(call, row)) {
      read(call, row, b, h, column);
      out.nonfinite_ok = out.nonfinite_ok || !masked_finite_ || beyond_operand_;
    }
    return out;
  }
  const Numbers& m = call.numbers;
  read(call, row, b, h, column);
  if (!of_.finite) {
    const Row::Box& weights = row.box(call, 0);
    const double threshold = sure_weight(call.contract->policy) * weights.hi_sum;
    // A score that overflowed to -inf takes its key, and what is in v, along.
    const bool keys_surely_count = !row.score_lost && !row.finite_undetermined && !of_.unknown;
    for (std::size_t t = 0; t < row.keys.size() && keys_surely_count; ++t)
      if (!std::isfinite(v_[t]) && weights.lo[t] >= threshold) out.expect = Expect::nonfinite;
    out.y = out.lo = out.hi = nan;
    out.nonfinite_ok = true;
    out.undetermined = out.expect == Expect::number;
    return out;
  }
  out.hull_lo = of_.hull_lo;
  out.hull_hi = of_.hull_hi;

  const double y = sum_of_products(row);
  const double hull_lo = of_.hull_lo * of_.unit, hull_hi = of_.hull_hi * of_.unit;
  double lo = infinity, hi = -infinity, lost_lo = infinity, lost_hi = -infinity;
  bool proper = std::isfinite(y);
  const Row::OfColumns& of_row = of_columns(call, row);
  const Combination* const ways = of_row.ways;
  double below[2], above[2], mean_abs[2];
  bool done[2] = {false, false};
  part_count_ = 0;
  for (int w = 0; w < of_row.count; ++w) {
    const int at = ways[w].box;
    const Row::Box& box = row.box(call, at);
    if (!done[at]) {
      done[at] = true;
      Lanes heavy = fill(0);
      for (std::size_t t = 0; t < values().size(); t += lane_count) heavy += load(&box.hi[t]) * magnitudes(t);
      mean_abs[at] = std::min(of_.max_abs, sum(heavy) / box.lo_sum);
      below[at] = box_extreme(box, y, -1);
      above[at] = box_extreme(box, y, 1);
    }
    const double sure = ways[w].t_top < ways[w].t && !row.score_lost ? least_top(row, box) : 0;
    const Radius tight = radius_of(m, row, ways[w], of_row.grown[w], mean_abs[at], sure, row.rho, of_.sum_abs,
                                   of_.max_abs, of_.unit, true);
    const double top = std::max(std::fabs(below[at]), std::fabs(above[at]));
    const double reach = tight.x + tight.g * (top + tight.x);
    parts_[part_count_++] = {ways[w], below[at], above[at], mean_abs[at], tight.x, 0, tight.g};
    proper = proper && below[at] - reach <= above[at] + reach;
    double end_lo = below[at] - reach, end_hi = above[at] + reach;
    if (of_row.coarse) {
      if (hull_lo >= 0) end_lo = std::max(end_lo, below[at] * of_row.kept[w] - tight.absolute);
      if (hull_hi <= 0) end_hi = std::min(end_hi, above[at] * of_row.kept[w] + tight.absolute);
    }
    lo = std::min(lo, end_lo);
    hi = std::max(hi, end_hi);
    if (row.score_lost) {
      const Radius wide =
          radius(m, row, of_row.weight_sum, ways[w], of_.max_abs, 0, row.rho_lost, of_.sum_abs, of_.max_abs, of_.unit);
      const double spread = wide.x + wide.g * (of_.max_abs + wide.x);
      lost_lo = std::min(lost_lo, hull_lo - spread);
      lost_hi = std::max(lost_hi, hull_hi + spread);
    }
  }
  out.y = y / of_.unit;
  const double edge = std::max(std::fabs(lo), std::fabs(hi)) / of_.unit;
  out.lo = (row.score_lost ? lost_lo : lo) / of_.unit;
  out.hi = (row.score_lost ? lost_hi : hi) / of_.unit;
  out.undetermined = !proper || !(out.lo <= out.hi) || row.finite_undetermined || !masked_finite_ ||
                     (row.score_lost && !(row.rho_lost < infinity));

  const double keys = static_cast<double>(row.n);
  const double grown = of_row.lost;
  const double products = std::min(std::min(of_.sum_abs, keys * of_.max_abs) * of_row.each, of_.max_abs * of_row.all);
  const double largest = of_.max_abs / of_.unit;
  out.nonfinite_ok = row.nonfinite_ok || beyond_operand_ || !masked_finite_ || !proper ||
                     products * (1 + grown) >= m.overflow_pv * of_.unit || edge >= m.overflow_out ||
                     (m.merges && edge >= m.overflow_partial) ||
                     (m.merges && largest * (1 + grown + m.u_weights) >= std::min(m.overflow_partial, m.overflow_pv)) ||
                     largest * (1 + m.u_weights + grown) >= m.overflow_pv;
  return out;
}

Enclosure lse_enclosure_of(const Call& call, Row& row) {
  Enclosure out;
  out.hull_lo = -infinity;
  out.hull_hi = infinity;
  out.nonfinite_ok = row.nonfinite_ok;
  switch (row.kind) {
    case RowKind::ordinary:
      break;
    case RowKind::empty:
      out.empty_row = true;
      out.y = out.lo = out.hi = -infinity;
      return out;
    case RowKind::must_be_nan:
      out.y = out.lo = out.hi = nan;
      out.expect = Expect::nan;
      return out;
    case RowKind::undetermined:
      out.y = nan;
      out.lo = -infinity;
      out.hi = infinity;
      out.undetermined = true;
      return out;
  }
  const Row::Lse lse = row.lse(call);
  out.y = lse.y;
  out.lo = lse.lo;
  out.hi = lse.hi;
  out.undetermined = row.score_lost || row.finite_undetermined || !(lse.lo <= lse.hi);
  return out;
}

}  // namespace attest::oracle
