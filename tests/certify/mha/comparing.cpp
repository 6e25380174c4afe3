#include "tests/certify/mha/comparing.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "core/rng.hpp"
#include "tests/certify/values.hpp"

namespace attest::certifying {
namespace {

using certify::Answer;

certify::Enclosure widened(certify::Enclosure enclosure, int sign, double least) {
  const certify::Ball slack = sign * (1e-12 * (enclosure.hi - enclosure.lo) + least);
  enclosure.lo = enclosure.lo - slack;
  enclosure.hi = enclosure.hi + slack;
  return enclosure;
}

void compare_intervals(const Pair& pair, Complaints& complaints) {
  const oracle::Enclosure& o = pair.oracle;
  const double lo = number(pair.proof.lo), hi = number(pair.proof.hi), slack = 1e-12 * (hi - lo) + pair.least;
  const double wide_lo = number(pair.wide.lo), wide_hi = number(pair.wide.hi),
               more = 1e-12 * (wide_hi - wide_lo) + pair.least;
  if (!(hi - lo < 1e250)) return;
  if (!(o.lo <= lo + slack && o.hi >= hi - slack))
    complaints.push_back(
        fmt::format("{}: narrower than is proven, {} .. {} against {} .. {}", pair.where, o.lo, o.hi, lo, hi));
  if (!(o.lo >= wide_lo - more && o.hi <= wide_hi + more))
    complaints.push_back(fmt::format("{}: wider than its own error makes it, {} .. {} against {} .. {}", pair.where,
                                     o.lo, o.hi, wide_lo, wide_hi));
}

void compare_verdicts(const Pair& pair, double value, Totals& totals, Complaints& complaints) {
  const oracle::Outcome outcome = judge_element(pair.oracle, {pair.stage, pair.tensor, pair.flush}, value);
  const certify::Rounding round{pair.stage, pair.tensor, pair.flush};
  const certify::Judgement proof = judge(pair.proof, round, value);
  ++totals.values;
  ++(outcome == oracle::Outcome::outside  ? totals.outside
     : outcome == oracle::Outcome::inside ? totals.inside
                                          : totals.permitted);
  const bool stands = proof.answer == Answer::stands;
  if (stands == (outcome == oracle::Outcome::outside)) return;
  ++totals.edge;
  const bool explained = stands ? judge(widened(pair.wide, 1, pair.least), round, value).answer == Answer::falls
                                : judge(widened(pair.proof, -1, pair.least), round, value).answer == Answer::stands;
  if (!explained)
    complaints.push_back(
        fmt::format("{} value {:a}: the certificate {}, {}", pair.where, value, name(proof.answer), proof.why));
}

}  // namespace

void compare(const Pair& pair, std::uint64_t key, Totals& totals, Complaints& complaints) {
  ++totals.elements;
  const oracle::Enclosure& o = pair.oracle;
  totals.undetermined += o.undetermined;
  const bool bounded =
      o.expect == oracle::Expect::number && !o.undetermined && std::isfinite(o.lo) && std::isfinite(o.hi);
  std::set<double> values{0, largest_finite(pair.tensor), -largest_finite(pair.tensor)};
  if (bounded) {
    if (pair.proof.undetermined) {
      complaints.push_back(pair.where + ": only the certificate leaves it undetermined, " +
                           pair.proof.undetermined.why);
      return;
    }
    compare_intervals(pair, complaints);
    totals.points += o.lo == o.hi;
    const oracle::Rounding round{pair.stage, pair.tensor, pair.flush};
    for (const double end : {round(o.lo), round(o.hi)})
      for (const double value : {end, step(pair.tensor, end, true), step(pair.tensor, end, false)})
        values.insert(value);
    const double far = 1 + static_cast<double>(below(key, 1000));
    values.insert(
        {round_to(pair.tensor, o.hi + far * (o.hi - o.lo) + std::fabs(o.hi) / 64), round_to(pair.tensor, o.y)});
  }
  for (const double value : values)
    if (std::isfinite(value)) compare_verdicts(pair, value, totals, complaints);
  for (const double value : {std::numeric_limits<double>::quiet_NaN(), infinity, -infinity})
    compare_verdicts(pair, value, totals, complaints);
}

Asked asked(std::uint64_t key) {
  Asked result{below(key, 3) == 0 ? testing::draw_unit_contract(key) : testing::draw_block_contract(key), {}};
  const mha::Contract contract = result.named.contract();
  result.problem = testing::draw_block(contract.attention.policy[Stage::storage], key);
  if (contract.attention.arithmetic.flush_to_zero && (key & 2) != 0)
    result.problem = testing::make_small(result.problem, key);
  result.problem.b = std::min<Index>(result.problem.b, 1 + static_cast<Index>(key & 1));
  result.problem.e = std::min<Index>(result.problem.e, 16);
  return result;
}

}  // namespace attest::certifying
