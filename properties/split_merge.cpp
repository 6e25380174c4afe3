// split-merge: two calls over a part of the keys each, merged by their log-sum-exp, give the call over all of them.
//
// With w = 1 / (1 + exp(lse_2 - lse_1)): out = w out_1 + (1 - w) out_2, in float64. Both parts are held against
// enclosures of their own, log-sum-exp included; the merged number lies between those of the parts' extremes, and
// stands beside the output for all keys, within all radii. Causality, windows and key lengths are written out as a keep
// mask first. Catches splits that are merged without their weights, and results that depend on how many keys there are.
#include <algorithm>
#include <cmath>

#include "properties/derive.hpp"
#include "properties/property.hpp"

namespace attest::properties {
namespace {

bool splits_at(const Problem& p, const DimRange& range, Index first) {
  return first > 0 && first < p.lk && range.offers(first) && range.offers(p.lk - first);
}

// Where the keys are cut: at a drawn place, or the nearest before or behind it that the subject takes; 0 for none.
Index cut_of(const Problem& p, const DimRange& range) {
  if (p.lk < 2) return 0;
  const Index drawn = 1 + static_cast<Index>(below(draw(p, 81), static_cast<std::uint64_t>(p.lk - 1)));
  const Index step = std::max<Index>(range.multiple, 1);
  for (const Index first : {drawn, drawn / step * step, drawn / step * step + step})
    if (splits_at(p, range, first)) return first;
  return 0;
}

Reason split_merge_not_applicable(const Problem& p, const Contract&, const SubjectInfo& info) {
  if (!info.supports.lse) return "the subject gives no log-sum-exp";
  if (p.b * p.hq * p.lq * p.dv == 0) return "no output elements";
  if (cut_of(p, info.supports.lk) == 0) return "no two parts of the keys that the subject takes";
  if (p.b * p.hkv * p.lk * (p.d + p.dv) > most_elements) return "too many elements to part";
  return positional(p) ? no_explicit_mask(p, info) : std::nullopt;
}

// The problem with keys [first, first + count) alone, asked for its log-sum-exp.
Derived part_of(const Derived& whole, Index first, Index count) {
  Derived part{whole.problem, {}};
  Problem& p = part.problem;
  const auto row = [=](std::array<Index, 4> at) {
    at[2] += first;
    return at;
  };
  const auto column = [=](std::array<Index, 4> at) {
    at[3] += first;
    return at;
  };
  part.inputs.set_options(whole.inputs);
  part.inputs.q = whole.inputs.q.clone();
  part.inputs.k = picked_rows(whole.inputs.k, p.k_layout, {p.b, p.hkv, count, p.d}, row);
  part.inputs.v = picked_rows(whole.inputs.v, p.v_layout, {p.b, p.hkv, count, p.dv}, row);
  part.inputs.keep = picked_rows(whole.inputs.keep, p.mask_layout, {p.b, p.hq, p.lq, count}, column);
  part.inputs.bias = picked_rows(whole.inputs.bias, p.mask_layout, {p.b, p.hq, p.lq, count}, column);
  p.lk = count;
  if (p.lse == LseOutput::none) p.lse = p.dtype == Format::f64 ? LseOutput::f64 : LseOutput::f32;
  return part;
}

struct Part {
  const Result& result;
  oracle::Oracle& oracle;
};

// Bounds of a rounded number; open where nothing is known of it.
struct Range {
  double lo, hi;
};
Range range_of(const oracle::Enclosure& e, const oracle::Rounding& round) {
  const bool open = e.undetermined || e.nonfinite_ok || e.zero_ok || e.expect != oracle::Expect::number;
  const double infinity = std::numeric_limits<double>::infinity();
  return open ? Range{-infinity, infinity} : Range{round(e.lo), round(e.hi)};
}

double weight(double first_lse, double second_lse) { return 1 / (1 + std::exp(second_lse - first_lse)); }

// Returns the merged out[b,h,i,c] with the interval of its permitted values.
Sighting merged(const Contract& contract, const Part* parts, Index b, Index h, Index i, Index c) {
  Sighting sum{0, {}, {Format::f64, Format::f64, false}};
  Range out[2], lse[2];
  double y[2], z[2], got[2], got_lse[2];
  for (int n = 0; n < 2; ++n) {
    const oracle::Enclosure o = parts[n].oracle.out_enclosure(b, h, i, c), l = parts[n].oracle.lse_enclosure(b, h, i);
    out[n] = range_of(o, out_rounding(contract, parts[n].result.out));
    lse[n] = range_of(l, lse_rounding(contract, parts[n].result.lse));
    // A part without keys weighs nothing, whatever its row holds.
    if (l.empty_row) lse[n] = {l.y, l.y}, out[n] = {0, 0};
    y[n] = l.empty_row ? 0 : o.y;
    z[n] = l.y;
    got[n] = l.empty_row ? 0 : parts[n].result.out.at(b, h, i, c);
    got_lse[n] = parts[n].result.lse.at(b, h, i);
  }
  const auto mean = [](double w, double one, double two) { return w * one + (1 - w) * two; };
  const double least = weight(lse[0].lo, lse[1].hi), most = weight(lse[0].hi, lse[1].lo);
  // The merging itself, in double: two roundings of the exponent, exp, a quotient and a mean.
  const double size =
      std::max({std::fabs(out[0].lo), std::fabs(out[0].hi), std::fabs(out[1].lo), std::fabs(out[1].hi)});
  const double slack = (16 + std::fabs(got_lse[0] - got_lse[1])) * 0x1p-51 * size;
  sum.value = mean(weight(got_lse[0], got_lse[1]), got[0], got[1]);
  sum.enclosure.y = mean(weight(z[0], z[1]), y[0], y[1]);
  sum.enclosure.lo = std::min(mean(least, out[0].lo, out[1].lo), mean(most, out[0].lo, out[1].lo)) - slack;
  sum.enclosure.hi = std::max(mean(least, out[0].hi, out[1].hi), mean(most, out[0].hi, out[1].hi)) + slack;
  // The mean of two empty parts is undetermined too: there is no mean of nothing.
  sum.enclosure.undetermined = sum.enclosure.nonfinite_ok =
      !std::isfinite(sum.enclosure.lo) || !std::isfinite(sum.enclosure.hi);
  return sum;
}

Verdict check_split_merge(Trial& trial) {
  const Derived whole =
      positional(trial.problem()) ? with_explicit_mask(trial, Said::diagonal_and_lengths) : copy_of(trial);
  const Problem& p = trial.problem();
  const Index cut = cut_of(p, trial.subject().info().supports.lk);
  const Derived one = part_of(whole, 0, cut), two = part_of(whole, cut, p.lk - cut);
  trial.base();
  const Request calls[] = {{&one.inputs, &one.problem}, {&two.inputs, &two.problem}};
  const std::vector<Result> results = trial.run_many(calls);
  for (const Result& result : results)
    if (result.violation) return Verdict::fail(*result.violation);

  const auto first = oracle::make_oracle(trial.contract(), one.problem, one.inputs),
             second = oracle::make_oracle(trial.contract(), two.problem, two.inputs);
  Verdict parted = joined(noted(first->judge(results[0].out, results[0].lse), "the first keys alone"),
                          noted(second->judge(results[1].out, results[1].lse), "the last keys alone"));
  if (trial.judgement().kind != VerdictKind::fail) return parted;

  const Part parts[] = {{results[0], *first}, {results[1], *second}};
  const oracle::Rounding round = out_rounding(trial.contract(), trial.base().out);
  for (const Index row : judged_rows(p)) {
    const auto [b, h, i] = row_index(p, row);
    for (Index c = 0; c < p.dv; ++c)
      if (auto evidence = departure({trial.base().out.at(b, h, i, c), trial.oracle().out_enclosure(b, h, i, c), round},
                                    merged(trial.contract(), parts, b, h, i, c), "out", {b, h, i, c},
                                    "two parts of the keys, merged"))
        return Verdict::fail(std::move(*evidence), parted.counts);
  }
  return Verdict::pass(parted.counts);
}

}  // namespace

Property split_merge() {
  return {"split-merge",
          "f(k, v) = w f(k_1, v_1) + (1 - w) f(k_2, v_2) within all radii, w = 1 / (1 + exp(lse_2 - lse_1))",
          "two calls over a part of the keys each, merged by their log-sum-exp, give the call over all keys",
          Kind::bound,
          split_merge_not_applicable,
          check_split_merge};
}

}  // namespace attest::properties
