// mean: with Q = 0 and 2^m open keys in a row, out is the exact mean of their values, rounded once.
//
// All scores of the row are exactly 0 (equal_scores.hpp), all weights exactly 1, or 2^-m once normalised. V is small
// integers in [-M, M], so that partial sums are integers up to n M, or multiples of 2^-m up to M: exact in any order,
// with tiles, rescalings by exp(0) and fused multiply-adds, as long as n M <= 2^p for the significands of pv and of the
// sum (softmax), and M <= 2^p of storage and operand. The quotient by 2^m is exact; one rounding to the output is left.
//
// Rows are judged where n, counted in the row's own masks, is a power of two that fits; needs no claim of the subject.
// Not where n keys may be normalised by parts or otherwise than by a division: merged splits (unless all keys are one
// tile), weights exp(z - lse), a division that may be off by more than half an ulp; nor where 1/n may be flushed to
// zero. Catches keys too many or too few, lost counts in the sum, and accumulators narrower than declared.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include <fmt/format.h>

#include "properties/compare.hpp"
#include "properties/equal_scores.hpp"
#include "properties/masks.hpp"
#include "properties/preconditions.hpp"
#include "properties/property.hpp"
#include "properties/transform.hpp"
#include "properties/trial.hpp"

namespace attest::properties {
namespace {

Reason mean_not_applicable(const Problem& p, const Contract& contract, const SubjectInfo&) {
  if (p.b * p.hq * p.lq * p.dv * p.lk == 0) return "no output elements or no keys";
  if (p.b * p.hq * p.lq * p.lk > most_scores) return "too many scores to count open keys";
  const Arithmetic& arithmetic = contract.arithmetic;
  if (arithmetic.lse_merge != LseMerge::none && p.lk > arithmetic.kv_tile_min)
    return "splits may be merged by their log-sum-exp";
  if (arithmetic.normalise_lse) return "weights may carry the rounding of an lse";
  if (arithmetic.div_ulp > 0.5) return "a division by a power of two may round";
  return scores_cannot_vanish(p, contract);
}

// 2^p: integers up to here are exact in every format that a sum or a count may be held in, and in blocks of products.
double largest_sum(const Contract& contract) {
  const Policy& policy = contract.policy;
  const int bits = std::min(precision(policy[Stage::pv]), precision(policy[Stage::softmax]));
  return std::ldexp(1.0, std::min(bits, contract.arithmetic.bits_in_sums() - 1));
}

// Returns the size that a weight of 1/n and its product with a value of 1 may fall to before they are flushed to zero;
// 0 if nothing is.
double smallest_kept(const Contract& contract, Format dtype) {
  if (!contract.arithmetic.flush_to_zero) return 0;
  double least = smallest_normal(dtype);
  for (const Stage stage : {Stage::softmax, Stage::weights, Stage::operand, Stage::pv, Stage::output})
    least = std::max(least, smallest_normal(contract.policy[stage]));
  return least;
}

// M: small, and no larger than leaves all Lk keys their exact sum.
Index largest_value(const Problem& p, double sum) {
  return static_cast<Index>(std::clamp(sum / static_cast<double>(p.lk), 1.0, 8.0));
}

void draw_values(const Problem& p, Index most, Tensor& v) {
  std::uint64_t bits = draw(p, 141);
  for_each_stored(v, [&](Index b, Index h, Index j, Index c) {
    bits = mix(bits);
    v.set(b, h, j, c,
          static_cast<double>(static_cast<Index>(below(bits, static_cast<std::uint64_t>(2 * most + 1))) - most));
  });
}

Verdict check_mean(Trial& trial) {
  const Problem& p = trial.problem();
  const double sum_max = largest_sum(trial.contract());
  const Index most = largest_value(p, sum_max);
  Inputs inputs = with_vanishing_scores(trial);
  draw_values(p, most, inputs.v);
  const Masks masks(inputs, trial.contract());

  // A single split may be rounded to `partial` too.
  const bool merges = trial.contract().arithmetic.lse_merge != LseMerge::none;
  const Format partial = merges ? trial.contract().policy[Stage::partial] : Format::f64;

  const double least = smallest_kept(trial.contract(), p.dtype);
  std::optional<Result> result;
  Counts counts;
  std::vector<Index> open;
  for (const Index row : judged_rows(p)) {
    const auto [b, h, i] = row_index(p, row);
    const Index kv = h / p.group();
    open.clear();
    for (Index j = 0; j < p.lk; ++j)
      if (masks.part(b, h, i, j) == Part::attended) open.push_back(j);
    const auto count = static_cast<double>(open.size());
    if (!std::has_single_bit(open.size()) || !(count * static_cast<double>(most) <= sum_max) || !(count * least <= 1))
      continue;
    if (!result) {
      result = trial.run(inputs, p);
      if (result->violation) return Verdict::fail(*result->violation);
    }
    const oracle::Rounding round = out_rounding(trial.contract(), result->out);
    for (Index c = 0; c < p.dv; ++c) {
      double sum = 0;
      for (const Index j : open) sum += inputs.v.at(b, kv, j, c);
      const double quotient = sum / count;
      if (round_to(partial, quotient) != quotient) continue;
      ++counts.judged;
      const double got = result->out.at(b, h, i, c), expected = round(quotient);
      if (got == expected) continue;
      return Verdict::fail(exact_evidence({b, h, i, c}, got, expected,
                                          fmt::format("the mean of {} values under equal scores", open.size())),
                           counts);
    }
  }
  if (counts.judged == 0) return Verdict::skip("no row with a fitting power of two of open keys");
  return Verdict::pass(counts);
}

}  // namespace

Property mean() {
  return {"mean",
          "q = 0, n = 2^m open keys, small integers v  =>  out = sum v / n",
          "equal scores give the exact mean of the open keys' values",
          Kind::exact,
          mean_not_applicable,
          check_mean,
          Asks::base_plan};
}

}  // namespace attest::properties
