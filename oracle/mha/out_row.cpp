#include "oracle/mha/out_row.hpp"

#include <algorithm>
#include <cmath>

#include "oracle/lanes.hpp"
#include "oracle/last_bit.hpp"

namespace attest::oracle {
namespace {

// Tells whether some column of a head may hold a NaN or an infinity, by its row alone.
bool may_be_nonfinite(const Row& row, const Numbers& numbers) {
  return row.kind != RowKind::ordinary || row.nonfinite_ok || !row.facts.v_finite || numbers.operand_rounds ||
         numbers.pv_narrower;
}

}  // namespace

void OutRow::start(const Way::Block& block, Index b, Index i) {
  b_ = b;
  i_ = i;
  heads_.resize(static_cast<std::size_t>(block.call.heads));
  for (Head& head : heads_) head.evaluated = false;
}

void OutRow::evaluate_head(const Way& way, Index h) {
  Head& head = heads_[static_cast<std::size_t>(h)];
  if (head.evaluated) return;
  const Call& call = way.attention();
  const Index number = call.head_number(b_, h);
  if (head.facts_of != number || head.facts_way != &way) head.facts = head_facts(call, b_, call.kv_head(h));
  head.facts_of = number;
  head.facts_way = &way;
  head.row.evaluate(call, head.facts, b_, h, i_);
  const auto d = static_cast<std::size_t>(call.dv);
  head.evaluated = true;
  head.known.assign(d, 0);
  head.columns.assign(d, {});
  head.lo.assign(d, 0);
  head.hi.assign(d, 0);
  head.parts.resize(d);
  head.values.resize(d);
  head.radii.resize(d);
  head.joins.assign(d, 0);
}

void OutRow::evaluate_column(const Way& way, Index h, Index column) {
  Head& head = heads_[static_cast<std::size_t>(h)];
  const auto c = static_cast<std::size_t>(column);
  if (head.known[c] != 0) return;
  head.known[c] = 1;
  const Call& call = way.attention();
  const Enclosure& e = head.columns[c] = column_.evaluate(call, head.row, b_, h, column);
  if (way.heads_rounded()) {
    const Interval ends = rounded_ends(way.heads_format(), way.flushes(), {e.lo, e.hi});
    head.lo[c] = ends.lo;
    head.hi[c] = ends.hi;
  } else {
    // Tells whether or not the last operation rounded to this format.
    const double u = unit_roundoff(way.heads_format());
    const double eta =
        way.flushes() ? smallest_normal(way.heads_format()) : half_smallest_subnormal(way.heads_format());
    const bool exact = e.lo == e.hi;
    head.lo[c] = exact ? e.lo : e.lo - (u * std::fabs(e.lo) + eta);
    head.hi[c] = exact ? e.hi : e.hi + (u * std::fabs(e.hi) + eta);
  }
  if (head.row.kind != RowKind::ordinary || head.row.score_lost || e.undetermined || e.expect != Expect::number ||
      column_.unit() != 1)
    return;
  head.joins[c] = 1;
  const auto parts = column_.parts(call, head.row);
  head.parts[c].assign(parts.begin(), parts.end());
  const std::span<const double> values = column_.values();
  head.values[c].assign(values.begin(), values.end());
  head.radii[c] = column_.radii();
}

const Enclosure& OutRow::head(const Way& way, Index h, Index c) {
  evaluate_head(way, h);
  evaluate_column(way, h, c);
  return heads_[static_cast<std::size_t>(h)].columns[static_cast<std::size_t>(c)];
}

OutRow::Range OutRow::joint(const Way& way, Head& head, const double* weights) {
  const Call& call = way.attention();
  const std::size_t keys = static_cast<std::size_t>(head.row.n_padded), d = head.columns.size();
  above_.assign(keys, 0);
  below_.assign(keys, 0);
  most_.assign(keys, 0);  // sums of radii, then of magnitudes for the rounding of these very sums
  double largest_sum = 0, rounded = 0;
  for (std::size_t c = 0; c < d; ++c) {
    const double w = weights[c], size = std::fabs(w);
    if (w == 0) continue;
    double top = 0;
    for (std::size_t t = 0; t < keys; ++t) {
      const double v = head.values[c][t], radius = head.radii[c].empty() ? 0 : head.radii[c][t];
      above_[t] += w * v;
      most_[t] += size * radius;
      top = std::max(top, std::fabs(v) + radius);
    }
    largest_sum += size * top;
    const double end = std::max(std::fabs(head.lo[c]), std::fabs(head.hi[c]));
    rounded += size * ((way.heads_rounded() ? 1 : 2) * half_ulp(way.heads_format(), end) +
                       (way.flushes() ? smallest_normal(way.heads_format()) : 0));
  }
  const double own = static_cast<double>(d + 4) * 0x1p-52 * largest_sum;
  double start = 0, most = 0, hull_lo = infinity, hull_hi = -infinity;
  for (std::size_t t = 0; t < keys; ++t) {
    const bool attended = static_cast<Index>(t) < head.row.n;
    const double centre = above_[t], radius = attended ? most_[t] + own : 0;
    below_[t] = centre - radius;
    above_[t] = centre + radius;
    most_[t] = std::fabs(centre) + radius;
    if (!attended) continue;
    start += head.row.p[t] * centre;
    most = std::max(most, most_[t]);
    hull_lo = std::min(hull_lo, below_[t]);
    hull_hi = std::max(hull_hi, above_[t]);
  }
  Range range{infinity, -infinity};
  const auto used =
      static_cast<std::size_t>(std::find_if(weights, weights + d, [](double w) { return w != 0; }) - weights);
  const std::size_t ways = head.parts[used].size();
  for (std::size_t k = 0; k < ways; ++k) {
    const Combination& how = head.parts[used][k].how;
    const Row::Box& box = head.row.box(call, how.box);
    Lanes heavy = fill(0);
    for (std::size_t t = 0; t < keys; t += lane_count) heavy += load(&box.hi[t]) * load(&most_[t]);
    const double mean = std::min(most, sum(heavy) / box.lo_sum);
    // The rounding of a weight moves all columns alike; every other error moves one.
    const double shared = growth(bounded(how.shared * (1 + call.numbers.u_final)));
    double apart = 0, whole = 0, ends = 0, g = 0;
    for (std::size_t c = 0; c < d; ++c) {
      const double size = std::fabs(weights[c]);
      if (size == 0) continue;
      const Column::Part& part = head.parts[c][k];
      apart += size * part.x_unshared;
      whole += size * part.x;
      ends += size * std::max(std::fabs(part.below), std::fabs(part.above));
      g = std::max(g, part.g);
    }
    const double x = (apart * (1 + shared) + shared * mean) * (1 + 0x1p-40);
    const double reach = x + g * (ends + whole) * (1 + 0x1p-40) + rounded;
    range.lo = std::min(range.lo, extreme_mean(box, below_, start, -1, hull_lo) - reach);
    range.hi = std::max(range.hi, extreme_mean(box, above_, start, 1, hull_hi) + reach);
  }
  return range;
}

Enclosure OutRow::enclosure(const Way::Block& block, const Way& way, Index e, bool numbers) {
  const Index d = block.call.head_dim;
  const SumRule& rule = way.out_rule();
  const double* row = block.w_out.row(e);
  const double bias = block.b_out[static_cast<std::size_t>(e)];
  const double added = way.separate() ? 0 : bias;
  Enclosure out;
  Terms terms;
  terms.products = block.call.q_width();
  terms.magnitude = std::fabs(added);
  terms.biased = added != 0;
  if (terms.biased) {
    terms.count = 1;
    terms.last_bit = std::isfinite(added) ? last_bit(added) : 0;
    if (std::fabs(added) < rule.smallest_input) terms.flushed += std::fabs(added);
  }
  double largest_weight = 0, largest_head = 0;
  const int least_of_heads = min_exponent(way.heads_format()) - precision(way.heads_format()) + 1;
  bool empty = true;
  out.lo = out.hi = out.y = out.hull_lo = out.hull_hi = added;
  if (errors_of_ != &way) errors_.emplace(rule, terms.products + 1);
  errors_of_ = &way;
  const SumErrors& errors = *errors_;
  for (std::size_t h = 0; h < heads_.size(); ++h) {
    Head& head = heads_[h];
    const double* weights = row + static_cast<Index>(h) * d;
    if (numbers && std::all_of(weights, weights + d, [](double w) { return w == 0; })) {
      empty = false;
      continue;
    }
    evaluate_head(way, static_cast<Index>(h));
    double lo = 0, hi = 0;
    Index used = 0;
    bool joined = true;  // with all columns that have a weight
    empty = empty && head.row.kind == RowKind::empty;
    for (Index c = 0; c < d; ++c) {
      const auto at = static_cast<std::size_t>(c);
      const double w = weights[c];
      // 0 times infinity is NaN, so that a weight of 0 hides no such value, and may not be needed to show it.
      if (w == 0) {
        out.nonfinite_ok = out.nonfinite_ok || may_be_nonfinite(head.row, way.attention().numbers);
        if (numbers || out.nonfinite_ok) continue;
        evaluate_column(way, static_cast<Index>(h), c);  // its own sum may overflow
        const Enclosure& unseen = head.columns[at];
        out.nonfinite_ok = unseen.nonfinite_ok || unseen.expect != Expect::number;
        continue;
      }
      evaluate_column(way, static_cast<Index>(h), c);
      joined = joined && head.joins[at] != 0;
      const Enclosure& o = head.columns[at];
      out.nonfinite_ok = out.nonfinite_ok || o.nonfinite_ok || o.expect != Expect::number;
      if (o.expect == Expect::nan) out.expect = Expect::nan;
      if (o.undetermined || o.zero_ok || o.expect == Expect::nonfinite) out.undetermined = true;
      if (o.expect != Expect::number) continue;
      const double one = w * head.lo[at], other = w * head.hi[at];
      lo += std::min(one, other);
      hi += std::max(one, other);
      out.y += w * o.y;
      const bool lone = o.empty_row;  // a number by rule, not a mean
      const double hull_one = w * (lone ? o.lo : o.hull_lo), hull_other = w * (lone ? o.lo : o.hull_hi);
      out.hull_lo += std::min(hull_one, hull_other);
      out.hull_hi += std::max(hull_one, hull_other);
      const double most = std::max(std::fabs(one), std::fabs(other));
      if (most == 0) continue;
      ++used;
      ++terms.count;
      terms.magnitude += most;
      const double magnitude = std::max(std::fabs(head.lo[at]), std::fabs(head.hi[at]));
      terms.factors += std::fabs(w) + magnitude;
      largest_weight = std::max(largest_weight, std::fabs(w));
      largest_head = std::max(largest_head, magnitude);
      if (std::fabs(w) < rule.smallest_input) terms.flushed += most;
      terms.last_bit =
          std::min(terms.last_bit, last_bit(w) + (head.lo[at] == head.hi[at] ? last_bit(head.lo[at]) : least_of_heads));
      if (rule.products_round() && !is_power_of_two(std::fabs(w))) terms.rounded = true;
    }
    if (joined && used > 1) {
      const Range range = joint(way, head, weights);
      lo = std::max(lo, range.lo);
      hi = std::min(hi, range.hi);
    }
    out.lo += lo;
    out.hi += hi;
  }
  out.empty_row = empty;
  if (out.expect == Expect::nan) {
    out.y = out.lo = out.hi = std::numeric_limits<double>::quiet_NaN();
    return out;
  }
  terms.largest = largest_weight + largest_head;
  // The sums of ends above are rounded too.
  const double own = terms.count > 1 ? (static_cast<double>(terms.products) + 4) * 0x1p-52 * terms.magnitude : 0;
  const double g = errors(terms) + own;
  out.lo -= g;
  out.hi += g;
  if (way.separate()) {
    const Interval ends =
        with_bias(rounded_ends(block.storage, way.flushes(), {out.lo, out.hi}), block.storage, way.flushes(), bias);
    out.lo = ends.lo;
    out.hi = ends.hi;
    out.y += bias;
    out.hull_lo += bias;
    out.hull_hi += bias;
  }
  if (errors.overflows(terms) || !(std::max(std::fabs(out.lo), std::fabs(out.hi)) < overflow_threshold(block.storage)))
    out.nonfinite_ok = true;
  out.undetermined = out.undetermined || errors.overflows(terms) || !(out.lo <= out.hi);
  return out;
}

}  // namespace attest::oracle
