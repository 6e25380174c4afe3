#include "certify/enclosure.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace attest::certify {
namespace {

// A column of v as the row sees it.
struct Column {
  Column(const Constants& c, const Inputs& inputs, const Row& row, std::array<Index, 4> place,
         const Operands* operands) {
    const auto [b, h, i, column] = place;
    const Index kv = h / (inputs.q.shape()[1] / inputs.v.shape()[1]);
    const auto read = [&, at = column, sample = b](Index j) {
      if (operands != nullptr) return operands->v.at(sample, kv, j, at);
      return Intervals::Element{inputs.v.at(sample, kv, j, at), 0};
    };
    const auto look = [&c, this](const Intervals::Element& x) {
      if (c.operand_rounds && may_reach(abs(x.centre) + x.radius, overflow_threshold(c.operand.format)))
        beyond_operand = true;
      return x.known && x.centre.is_finite();
    };
    for (const Index j : row.keys) {
      Intervals::Element x = read(j);
      finite = look(x) && finite;
      known = known && x.known;
      sum_abs += abs(x.centre) + x.radius;
      values.push_back(std::move(x));
    }
    for (std::size_t j = 0; j < row.masked_but_read.size(); ++j)
      if (row.masked_but_read[j]) masked_finite = look(read(static_cast<Index>(j))) && masked_finite;
    if (finite && !values.empty()) hull = hull_of(values);
  }

  std::vector<Intervals::Element> values;  // values of the keys that take part
  bool finite = true, known = true, masked_finite = true, beyond_operand = false;
  Hull hull;
  Ball sum_abs;
};

// Section 3: each weight lies between e^(z - zmax - d) and e^(z - zmax + d).
struct Weights {
  Weights(const Row& row, const Ball& extra) {
    for (std::size_t t = 0; t < row.scores.size(); ++t) {
      const Ball middle = row.scores[t].z - row.z_max, width = row.d[t] + extra;
      lo.push_back(exp(middle - width));
      hi.push_back(exp(middle + width));
    }
  }

  // Returns the mean of values at their upper (sign 1) or lower ends, as far to that side as weights can bring it. It
  // is furthest where the keys past some value have their upper weights and the others their lower ones, so that one of
  // all n + 1 cuts through the sorted values attains it. Returns `end` of the hull where the weights are unknown.
  [[nodiscard]] Ball extreme(const std::vector<Intervals::Element>& values, int sign, const Ball& end) const {
    std::vector<Ball> ends;
    ends.reserve(values.size());
    for (const Intervals::Element& x : values) ends.push_back(sign > 0 ? x.centre + x.radius : x.centre - x.radius);
    std::vector<std::size_t> order(values.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::sort(order, [&](std::size_t a, std::size_t b) {
      return sign * arf_cmp(arb_midref(ends[a].get()), arb_midref(ends[b].get())) > 0;
    });
    Ball moment, weight;
    for (const std::size_t t : order) {
      moment += lo[t] * ends[t];
      weight += lo[t];
    }
    Ball best = moment / weight;
    for (const std::size_t t : order) {
      moment += (hi[t] - lo[t]) * ends[t];
      weight += hi[t] - lo[t];
      const Ball mean = moment / weight;
      best = sign > 0 ? max(best, mean) : min(best, mean);
    }
    if (!best.is_finite()) return end;
    return sign > 0 ? min(best, end) : max(best, end);  // no mean lies further out
  }

  // The least share of a mean of |v| that the key with the largest score has. 0 if nothing is known of its weight.
  [[nodiscard]] Ball least_top(const Row& row, const std::vector<Intervals::Element>& values) const {
    if (row.tops.empty()) return 0;
    const auto heavy = [&](std::size_t t) { return lo[t] * max(0, abs(values[t].centre) - values[t].radius); };
    Ball hi_sum, least = heavy(row.tops[0]);
    for (const Ball& weight : hi) hi_sum += weight;
    for (const std::size_t t : row.tops) least = min(least, heavy(t));
    return least / hi_sum;
  }
  std::vector<Ball> lo, hi;
};

Means means_of(const Weights& weights, const std::vector<Intervals::Element>& values, const Hull& hull) {
  Ball heavy, lo_sum;
  for (std::size_t t = 0; t < values.size(); ++t) {
    heavy += weights.hi[t] * (abs(values[t].centre) + values[t].radius);
    lo_sum += weights.lo[t];
  }
  return {weights.extreme(values, -1, hull.lo), weights.extreme(values, 1, hull.hi),
          tighter(hull.largest, heavy / lo_sum)};
}

// ln of the most that a wrong argument of exp, and exp itself, may make of a weight of 1.
Ball excess(const Row& row) { return row.wrong_argument * row.z_all + row.every_exp; }

// One way in which a kernel may turn the weights into an output.
struct Combination {
  const char* name;
  Ball t;                 // relative errors that numerator and denominator do not share
  bool sum_of_rounded;    // the sum is taken over the rounded weights
  bool normalised_first;  // the weights are divided by the sum before they are rounded
  Ball extra;             // the addition to every d
  Ball t_top = t;         // t of the key with the largest score
};

// Returns the loss of the sum of weighted values and its rescalings, relative to the sum of magnitudes.
Ball lost_by_values(const Constants& c, const Row& row) {
  const Ball others = (c.pv_narrower ? 2 : 1) * Ball(row.rescalings) + 2;
  return (c.pv_blocks ? c.pv_blocks->loss(row.n, row.blocks) : c.ln_of_sum(row.n, c.u_pv)) + others * c.u_pv;
}

// N of section 4, and u_opd for v.
Ball shared_rounding(const Constants& c, const Row& row) {
  Ball t = lost_by_values(c, row) + 4 * c.u_final * c.c_div + c.u_operand;
  if (c.how.lse_merge == LseMerge::flat) t += c.u_partial;
  if (c.how.lse_merge == LseMerge::chain)
    t += row.splits * (2 * c.u_pv + 2 * c.u_final * c.c_div + 3 * c.softmax.u + c.u_partial);
  if (c.merges && c.how.merge_weights == MergeWeights::lse) {
    const Ball merges = c.how.lse_merge == LseMerge::chain ? Ball(row.splits) - 1 : Ball(1);
    t += merges * (c.softmax.u * (2 * (row.z_top + c.lazy + row.ln_n + 1) + 2 * (row.ln_n + 1)) + 2 * c.ln_exp) +
         row.splits * c.softmax.u;
  }
  return t;
}

std::vector<Combination> combinations(const Constants& c, const Row& row) {
  const Ball t = shared_rounding(c, row);
  std::vector<Combination> ways;
  if (c.how.normalise_after && c.how.sum_of_unrounded) {
    // A weight of almost 1 is almost exact.
    const Ball top = row.tops.empty() ? c.u_weights : tighter(c.u_weights, c.per_unit_weight * expm1(row.top_off));
    ways.push_back({"after, sum of unrounded", c.u_weights + t, false, false, 0, top + t});
  }
  if (c.how.normalise_after && c.how.sum_of_rounded)
    ways.push_back({"after, sum of rounded", t, true, false, c.weights_round ? c.u_weights : Ball(0)});
  if (c.how.normalise_before) ways.push_back({"before", c.u_weights + t + 2 * c.c_div * c.softmax.u, false, true, 0});
  if (c.how.normalise_lse) {
    const Ball argument = (2 + (c.exp2 ? 4 : 0)) * (row.z_top + c.lazy + row.ln_n + 1) + c.a3 * (row.ln_n + 1);
    ways.push_back(
        {"anew",
         c.u_weights + t + c.softmax.u * argument + (3 + Ball(row.rescalings)) * c.ln_exp + 2 * c.c_div * c.softmax.u,
         false, true, 0});
  }
  return ways;
}

// |ln| of what additions may make of the sum of the weights.
Ball lost_by_weights(const Constants& c, const Row& row) {
  if (!c.sum_blocks) return c.ln_of_sum(row.n - 1, c.u_sum) + row.rescalings * c.u_sum;
  const Ball loss = c.sum_blocks->loss(row.n, row.blocks), most = 600;
  return (certainly_less(loss, 1) ? min(-log1p(-loss), most) : most) + row.rescalings * c.softmax.u;
}

// aL of section 4: the relative error of the denominator alone.
Ball denominator_error(const Constants& c, const Row& row, const Ball& rho, bool sum_of_rounded) {
  // The largest sum, which bounds the underflow of its reciprocal.
  const Ball by_maximum = row.mass_most * exp(row.g), by_count = row.n * exp(excess(row));
  const Ball largest_sum = exp(c.lazy) * tighter(by_maximum, by_count);
  Ball a = lost_by_weights(c, row) + 3 * c.c_div * c.u_final + 3 * row.n * row.rescaled * rho +
           max(1, c.c_div) * c.eta_final * largest_sum;
  if (sum_of_rounded) a += row.n * c.eta_weights * rho;
  if (c.flush) a += 3 * row.n * c.softmax.eta * rho;
  return a;
}

// The same where the weights lie in their box.
Ball denominator_error_in_box(const Constants& c, const Row& row, const Ball& rho, bool sum_of_rounded) {
  Ball error = denominator_error(c, row, rho, sum_of_rounded);
  if (!row.of_weights || !certainly_less(error, 0.25)) return error;
  Ball underflow = 3 * row.rescaled;
  if (sum_of_rounded) underflow += c.eta_weights;
  if (c.flush) underflow += 3 * c.softmax.eta;
  const Ball lost = (1 + 6 * error) * (row.of_weights->rest + row.n * underflow * rho);
  if (!certainly_less(lost, 0.5)) return error;
  const Ball spared = c.ln_of_sum(row.n - 1, c.u_sum) - c.ln_of_sum(row.of_weights->keys - 1, c.u_sum);
  return min(error, error - spared - log1p(-lost));
}

// Returns the least share that is left of a mean of values of one sign, where sums may lose half of their size. The
// numerator keeps the share that t gives; the denominator, whose terms are positive, is too large by less than it may
// be too small.
std::optional<Ball> least_kept(const Constants& c, const Row& row, const Combination& how) {
  if (!c.sums_linearly() || c.pv_blocks || c.sum_blocks || certainly_less(row.n * (c.u_pv + c.softmax.u), 0.5))
    return std::nullopt;
  const Ball n = row.n, small = n * c.softmax.u * c.softmax.u, root = sqrt(small) + sqrt(1 + small);
  const Ball a = denominator_error(c, row, row.rho, how.sum_of_rounded) - c.ln_of_sum(n - 1, c.u_sum) +
                 log(min(1 + (n - 1) * c.softmax.u, 2 * root * root));
  return exp(-(how.t * (1 + c.u_final)) - a * (1 + c.softmax.u));
}

// x and g of section 4. `magnitude` is Abar, `sure` the share of it that the key with the largest score has at least.
// `in_box`: the weights lie in their box.
Way widened(const Constants& c, const Row& row, const Column& column, const Combination& how, const Ball& magnitude,
            const Ball& sure, const Ball& rho, bool in_box) {
  const Ball n = row.n, products = c.flush ? 2 * n : c.pv_blocks ? Ball(0) : n;
  // A quotient that underflows is off by ulps of subnormals: c_d eta, of which one is counted below.
  const Ball quotient = max(1, c.c_div) - 1;
  const Ball merged = c.merges ? (c.how.lse_merge == LseMerge::chain ? Ball(row.splits) : Ball(1)) : Ball(0);
  Ball absolute = quotient * (merged + (how.normalised_first ? 0 : 1)) * c.pv.eta;
  if (how.normalised_first) {
    absolute +=
        column.sum_abs * (c.eta_weights + (1 + quotient) * c.softmax.eta + c.eps0 * rho) + (products + 2) * c.pv.eta;
  } else {
    const Ball underflows = column.sum_abs * (c.eta_weights + 2 * c.eps0) +
                            Ball(2.2) * n * column.hull.largest * max(c.eps1, row.rescaled) +
                            (products + 2 * Ball(row.rescalings) + 6) * c.pv.eta;
    absolute += underflows * rho + 4 * c.pv.eta;
  }
  if (c.pv_blocks) {
    const Ball scale = how.normalised_first ? Ball(1) : rho, least = c.least_weight_factor;
    absolute += scale * c.pv_blocks->loss(n, row.blocks) * c.pv_blocks->smallest;
    absolute +=
        c.pv_blocks->aligned(n, row.blocks, c.least_weight_factor) * ((column.hull.largest + least) * scale + 2);
  }
  if (c.operand_rounds || c.flush) absolute += 2 * c.eta_operand;
  if (c.merges) absolute += 2 * c.partial.eta;
  if (c.flush) absolute += 2 * c.pv.eta + c.partial.eta;
  const Ball own = c.float64_errors * 4 * (n + 8) * 0x1p-53 * magnitude;
  const Ball all = expm1(how.t * (1 + c.u_final)), top = expm1(how.t_top * (1 + c.u_final)), once = absolute;
  absolute *= 1 + all;  // sums round what underflows leave, too
  Ball x = all * (magnitude - sure) + top * sure + absolute + own;
  if (in_box && row.of_values) {
    // Keys that count for less than a rounding lose no more than their own size, as far as they were computed.
    const Ball spared = c.ln_of_sum(row.n, c.u_pv) - c.ln_of_sum(row.of_values->keys, c.u_pv);
    const Ball others = expm1((how.t - spared) * (1 + c.u_final)),
               first = expm1((how.t_top - spared) * (1 + c.u_final));
    x = min(x, others * (magnitude - sure) + first * sure + absolute + own +
                   (1 + all) * (1 + all) * (row.of_values->rest * column.hull.largest + once));
  }
  const Ball a = in_box ? denominator_error_in_box(c, row, rho, how.sum_of_rounded)
                        : denominator_error(c, row, rho, how.sum_of_rounded);
  Way way;
  way.name = how.name;
  way.t = how.t;
  way.x = x;
  way.g = expm1(a * (1 + c.softmax.u));
  way.t_top = how.t_top;
  way.top = sure;
  way.absolute = absolute + own;
  return way;
}

Ball reach(const Way& way, const Ball& top) { return way.x + way.g * (top + way.x); }

// The least weight that no stage can flush to zero, so that it surely carries a NaN or an infinity of v along.
double sure_weight(const Constants& c) {
  return std::max({0x1p-100, smallest_normal(c.softmax.format), smallest_normal(c.weights.format),
                   smallest_normal(c.operand.format)});
}

// The rule of the row alone, where its values do not matter. False if they do.
bool decided_by_row(const Contract& contract, const Row& row, Enclosure& out) {
  out.nonfinite = row.nonfinite;
  out.undetermined = row.undetermined;
  out.zero_ok = row.zero_ok;
  out.empty_row = row.kind == RowKind::empty;
  if (row.kind == RowKind::must_be_nan) out.expect = Expect::nan;
  if (row.kind == RowKind::must_be_nan || row.kind == RowKind::undetermined) return true;
  if (row.kind == RowKind::ordinary || !row.keys.empty()) return false;
  // Without keys lo = hi = 0 stands.
  if (contract.empty_row == EmptyRow::nan) out.expect = Expect::nan;
  if (contract.empty_row == EmptyRow::unspecified || is_mean(contract.empty_row)) {
    const char* why = "no key is open in this row, and the contract says nothing of such rows";
    out.undetermined.give(why);
    out.nonfinite.give(why);
  }
  return true;
}

// Section 5: where an element may overflow although no score does.
void permit_overflow(const Constants& c, const Row& row, const Column& column, const Ball& edge,
                     Permission& nonfinite) {
  const Ball grown = exp(lost_by_values(c, row) * (1 + c.u_pv));
  Ball products = min(column.sum_abs, row.n * column.hull.largest) * exp(c.lazy + excess(row) + c.u_weights);
  // Weights that are divided by their own sum, whichever way is taken.
  const std::vector<Combination> ways = combinations(c, row);
  if (ways.size() == 1 && c.how.normalise_before && !c.merges)
    products = min(products, column.hull.largest * exp(ways[0].t + denominator_error(c, row, row.rho, false)));
  if (may_reach(products * grown, c.pv.overflow) ||
      may_reach((grown + c.u_weights) * column.hull.largest, c.pv.overflow))
    nonfinite.give("the sum of weighted values may overflow");
  if (may_reach(edge, c.overflow_out)) nonfinite.give("the interval reaches the overflow threshold of out");
  if (c.merges && (may_reach(edge, c.partial.overflow) ||
                   may_reach((grown + c.u_weights) * column.hull.largest, c.partial.overflow)))
    nonfinite.give("a partial result may overflow");
}

}  // namespace

Hull hull_of(const std::vector<Intervals::Element>& values) {
  Hull hull{values[0].centre - values[0].radius, values[0].centre + values[0].radius, 0};
  for (const Intervals::Element& x : values) {
    hull.lo = min(hull.lo, x.centre - x.radius);
    hull.hi = max(hull.hi, x.centre + x.radius);
    hull.largest = max(hull.largest, abs(x.centre) + x.radius);
  }
  return hull;
}

Means means_of(const Row& row, const Ball& extra, const std::vector<Intervals::Element>& values) {
  return means_of(Weights(row, extra), values, hull_of(values));
}

Enclosure out_enclosure(const Constants& c, const Contract& contract, const Inputs& inputs, const Row& row,
                        std::array<Index, 4> place, const Operands* operands) {
  Enclosure out;
  const bool decided = decided_by_row(contract, row, out);
  if (decided && row.kind != RowKind::empty) return out;
  const Column column(c, inputs, row, place, operands);
  if (column.beyond_operand) out.nonfinite.give("a value is past the range of the operand format");
  if (!column.masked_finite) out.nonfinite.give("a masked value is not finite, and may be read");
  if (decided) return out;
  if (!column.masked_finite) out.undetermined.give("a masked value is not finite, and may be read");
  if (!column.finite) {
    out.nonfinite.give("an attended value is not finite");
    const Weights weights(row, 0);
    Ball hi_sum;
    for (const Ball& hi : weights.hi) hi_sum += hi;
    const Ball least = sure_weight(c) * hi_sum;
    const bool keys_surely_count = !row.score_lost && !row.undetermined && column.known;
    for (std::size_t t = 0; t < column.values.size(); ++t)
      if (keys_surely_count && !column.values[t].centre.is_finite() && certainly_less(least, weights.lo[t]))
        out.expect = Expect::nonfinite;
    if (out.expect == Expect::number) out.undetermined.give("an attended value is not finite, and may weigh nothing");
    return out;
  }

  Ball moment;
  for (std::size_t t = 0; t < column.values.size(); ++t)
    moment += exp(row.scores[t].z - row.z_max) * column.values[t].centre;
  out.y = moment / row.mass;
  Ball lo = column.hull.lo, hi = column.hull.hi, lost = 0;
  bool first = true;
  for (const Combination& how : combinations(c, row)) {
    const Weights weights(row, how.extra);
    const Means box = means_of(weights, column.values, column.hull);
    const Ball sure = row.score_lost ? Ball(0) : weights.least_top(row, column.values);
    Way way = widened(c, row, column, how, box.mean_abs, sure, row.rho, true);
    way.means = box;
    way.extra = how.extra;
    way.shared = how.sum_of_rounded ? Ball(0) : c.u_weights;
    Combination apart = how;
    apart.t = apart.t_top = how.t - way.shared;
    way.x_apart = widened(c, row, column, apart, box.mean_abs, 0, row.rho, true).x;
    const Ball spread = reach(way, max(abs(box.least), abs(box.most)));
    Ball least = box.least - spread, most = box.most + spread;
    if (const std::optional<Ball> kept = least_kept(c, row, how)) {
      if (arb_is_nonnegative(column.hull.lo.get())) least = max(least, box.least * *kept - way.absolute);
      if (arb_is_nonpositive(column.hull.hi.get())) most = min(most, box.most * *kept + way.absolute);
    }
    lo = first ? least : min(lo, least);
    hi = first ? most : max(hi, most);
    out.ways.push_back(std::move(way));
    first = false;
    if (row.score_lost)
      lost = max(lost,
                 reach(widened(c, row, column, how, column.hull.largest, 0, row.rho_lost, false), column.hull.largest));
  }
  permit_overflow(c, row, column, max(abs(lo), abs(hi)), out.nonfinite);
  // The survivors need not include the maximum: all that is left is that they are weighted somehow.
  out.lo = row.score_lost ? column.hull.lo - lost : lo;
  out.hi = row.score_lost ? column.hull.hi + lost : hi;
  return out;
}

Enclosure hull_enclosure(const Constants& c, const Contract& contract, const Inputs& inputs, const Row& row,
                         std::array<Index, 4> place) {
  Enclosure out;
  out.nonfinite.give("the law asks for finite numbers only");
  if (row.kind != RowKind::ordinary) {
    out.undetermined.give("the row has no keys, or inputs that are not finite");
    return out;
  }
  const Column column(c, inputs, row, place, nullptr);
  const bool fixed = contract.empty_row == EmptyRow::zero || contract.empty_row == EmptyRow::nan;
  if (!column.finite || !column.masked_finite) out.undetermined.give("a value is not finite");
  if (row.undetermined && !fixed) out.undetermined = row.undetermined;
  if (out.undetermined) return out;
  // A factor of rescaling that leaves too much of a weight leaves it in the numerator and in the sum, but for weights
  // that are normalised first.
  Row alike = row;
  alike.rescaled = c.eps_lazy;
  const bool sum_alone = may_reach(row.rescaled, 2 * c.eps_lazy) && c.how.divides_first();
  Ball spread;
  for (const Combination& how : combinations(c, row)) {
    out.ways.push_back(widened(c, alike, column, how, column.hull.largest, 0, row.rho_lost, false));
    spread = max(spread, reach(out.ways.back(), column.hull.largest));
  }
  out.y = column.hull.lo;
  out.lo = column.hull.lo - spread;
  out.hi = column.hull.hi + spread;
  if (row.undetermined || row.zero_ok || sum_alone) {
    out.lo = min(out.lo, 0);
    out.hi = max(out.hi, 0);
  }
  return out;
}

Enclosure lse_enclosure(const Constants& c, const Row& row) {
  Enclosure out;
  out.nonfinite = row.nonfinite;
  out.undetermined = row.undetermined;
  out.empty_row = row.kind == RowKind::empty;
  if (row.kind == RowKind::empty) out.expect = Expect::minus_infinity;
  if (row.kind == RowKind::must_be_nan) out.expect = Expect::nan;
  if (row.kind != RowKind::ordinary) return out;
  Ball lower, upper;
  for (std::size_t t = 0; t < row.scores.size(); ++t) {
    lower += exp(row.scores[t].z - row.z_max - row.d[t]);
    upper += exp(row.scores[t].z - row.z_max + row.d[t]);
  }
  lower = log(lower);
  upper = log(upper);
  const bool rounded = c.how.sum_of_rounded && c.weights_round;
  const Ball magnitude = max(abs(lower), abs(upper)), a = denominator_error_in_box(c, row, row.rho, rounded);
  const Ball base = 2 + (c.exp2 ? 3 : 0) + (c.merges ? 3 : 0);
  Ball radius = a * (1 + c.softmax.u) + c.softmax.u * (base * (row.z_top + magnitude + c.lazy) + 2 * magnitude) +
                c.float64_errors * (0x1p-48 * (row.z_top + magnitude) + 4 * (Ball(row.n) + 8) * 0x1p-53);
  if (rounded) radius += c.u_weights;
  if (c.how.lse_merge == LseMerge::chain)
    radius += c.softmax.u * 3 * (Ball(row.splits) - 1) * (row.z_top + magnitude + 1);
  out.y = row.z_max + log(row.mass);
  out.lo = row.z_max + lower - radius;
  out.hi = row.z_max + upper + radius;
  if (row.score_lost) out.undetermined.give("a score that matters may overflow");
  return out;
}

}  // namespace attest::certify
