// The certificate and the oracle share the page of formulas and no code: over random problems and contracts, ball
// arithmetic gives the interval that float64 gives, flags included, and the same verdict on values on its edges and off
// them.
//
// The oracle adds terms for its own rounding, the certificate makes none. Its interval therefore lies between those of
// the certificate with these terms left out and counted twice; and on a value between the two the verdicts may differ,
// one way: the oracle accepts what the certificate proves wrong. Such values are counted.
//
// ATTEST_CERTIFY_PROBLEMS (1000) and ATTEST_CERTIFY_SEED (1) choose the problems.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "certify/rounding.hpp"
#include "core/json_text.hpp"
#include "core/rng.hpp"
#include "kernels/emulated/contracts.hpp"
#include "oracle/attention.hpp"
#include "oracle/outcome.hpp"
#include "tests/certify/values.hpp"
#include "tests/oracle/draw.hpp"
#include "tests/setting.hpp"

namespace attest {
namespace {

using certify::Answer;
constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

struct Totals {
  std::int64_t problems = 0, elements = 0, values = 0;
  std::int64_t inside = 0, outside = 0, permitted = 0, undetermined = 0, lost = 0, empty = 0;
  std::int64_t exact = 0;     // problems whose scores nothing rounds
  std::int64_t edge = 0;      // the oracle's own error decides: it accepts or leaves open, the certificate stands
  std::int64_t beyond = 0;    // its float64 overflows, and it leaves open what the certificate decides
  std::int64_t rounding = 0;  // the oracle rejects, by the rounding of its radius, what the certificate permits
  double nearest = infinity;  // how far an end of the oracle's is outside the proof's, in widths of the interval
};

// One element under both.
struct Pair {
  const oracle::Enclosure& oracle;
  const certify::Enclosure &proof, &wide;  // without the oracle's own errors, and with more than these
  oracle::Rounding oracle_round;
  certify::Rounding round;
  bool overflows;  // sums of the row may be infinite in float64, and the oracle leaves open what it cannot compute
  std::string where;
};

// Tells whether a bias, a sum over a row of q or k, or one of their products scaled by 2^x's factor, comes near the
// largest double.
bool nearly_overflows(const Inputs& inputs, Index b, Index h, Index i) {
  const Index kv = h / (inputs.q.shape()[1] / inputs.k.shape()[1]);
  double q_sum = 0;
  for (Index c = 0; c < inputs.q.shape()[3]; ++c) q_sum += std::fabs(inputs.q.at(b, h, i, c));
  const double factor = 8 * std::max(1.0, std::fabs(inputs.scale));
  double largest = q_sum;
  for (Index j = 0; j < inputs.k.shape()[2]; ++j) {
    double k_sum = 0, products = 0;
    for (Index c = 0; c < inputs.q.shape()[3]; ++c) {
      k_sum += std::fabs(inputs.k.at(b, kv, j, c));
      products += std::fabs(inputs.q.at(b, h, i, c) * inputs.k.at(b, kv, j, c));
    }
    largest = std::max({largest, k_sum, products});
    const double bias = inputs.bias.present() ? std::fabs(inputs.bias.at(b, h, i, j)) : 0;
    if (std::isfinite(bias)) largest = std::max(largest, bias);
  }
  return !std::isfinite(factor * largest);
}

// Float64 rounds the radius too, which no term counts: this much of the interval's width.
constexpr double radius_rounding = 1e-13;

// Returns the enclosure with this much more on either side; with sign -1, less.
certify::Enclosure widened(certify::Enclosure enclosure, int sign = 1) {
  const certify::Ball slack = sign * radius_rounding * (enclosure.hi - enclosure.lo);
  enclosure.lo = enclosure.lo - slack;
  enclosure.hi = enclosure.hi + slack;
  return enclosure;
}

// Where a bound is e^600 or more the oracle, which must stay finite, stops counting. Only numbers of that size notice.
bool is_vacuous(const certify::Enclosure& proof) {
  return !proof.lo.is_finite() || !proof.hi.is_finite() || !certainly_less(proof.hi - proof.lo, 1e250);
}

using Complaints = std::vector<std::string>;

// The ends of the oracle's interval lie between those of the proof and of the wide one.
void compare_intervals(const Pair& pair, Totals& totals, Complaints& complaints) {
  const oracle::Enclosure& o = pair.oracle;
  const double lo = number(pair.proof.lo), hi = number(pair.proof.hi);
  if (is_vacuous(pair.proof)) return;
  const double slack = radius_rounding * (hi - lo);
  const auto complain = [&](const char* what) {
    complaints.push_back(fmt::format("{}: {} {} .. {} against {} .. {}", pair.where, what, o.lo, o.hi, lo, hi));
  };
  if (!(o.lo <= lo + slack && o.hi >= hi - slack)) complain("narrower than is proven,");
  if (hi > lo) totals.nearest = std::min({totals.nearest, (lo - o.lo) / (hi - lo), (o.hi - hi) / (hi - lo)});
  if (pair.overflows) return;
  if (!(o.lo >= number(pair.wide.lo) && o.hi <= number(pair.wide.hi))) complain("wider than its own error makes it,");
}

void compare_verdicts(const Pair& pair, double value, Totals& totals, Complaints& complaints) {
  const oracle::Outcome outcome = judge_element(pair.oracle, pair.oracle_round, value);
  const certify::Judgement proof = judge(pair.proof, pair.round, value);
  ++totals.values;
  ++(outcome == oracle::Outcome::outside  ? totals.outside
     : outcome == oracle::Outcome::inside ? totals.inside
                                          : totals.permitted);
  const bool stands = proof.answer == Answer::stands;
  if (stands == (outcome == oracle::Outcome::outside) || (is_vacuous(pair.proof) && std::fabs(value) > 1e200)) return;
  bool explained = false;
  if (!stands) {  // the oracle's end was rounded inwards
    ++totals.rounding;
    explained = judge(widened(pair.proof, -1), pair.round, value).answer == Answer::stands;
  } else if (pair.overflows) {
    ++totals.beyond;
    explained = true;
  } else {  // only what the oracle's own error lets in
    ++totals.edge;
    explained = judge(pair.wide, pair.round, value).answer == Answer::falls;
  }
  if (!explained)
    complaints.push_back(fmt::format("{} value {}: the certificate {}, {}", pair.where, hex_float(value),
                                     name(proof.answer), proof.why));
}

void compare(const Pair& pair, std::uint64_t key, Totals& totals, Complaints& complaints) {
  ++totals.elements;
  const oracle::Enclosure& o = pair.oracle;
  const bool bounded =
      o.expect == oracle::Expect::number && !o.undetermined && std::isfinite(o.lo) && std::isfinite(o.hi);
  totals.undetermined += o.undetermined;
  totals.empty += o.empty_row;
  if (bounded) compare_intervals(pair, totals, complaints);
  const Format format = pair.round.tensor;
  std::set<double> values{0, largest_finite(format), -largest_finite(format)};
  const double lo = pair.oracle_round(o.lo), hi = pair.oracle_round(o.hi);
  if (bounded) {
    for (const double end : {lo, hi})
      for (const double value : {end, step(format, end, true), step(format, end, false)}) values.insert(value);
    const double far = 1 + static_cast<double>(below(key, 1000));
    values.insert({round_to(format, hi + far * (hi - lo) + std::fabs(hi) / 64), round_to(format, o.y)});
  }
  for (const double value : values)
    if (std::isfinite(value)) compare_verdicts(pair, value, totals, complaints);
  for (const double value : {nan, infinity, -infinity}) compare_verdicts(pair, value, totals, complaints);
}

// One row of a problem: some of its elements of out, each with its hull, and its log-sum-exp. The certificate may be
// given another contract, which it must then be seen to disagree with.
void compare_row(const Contract& contract, const Contract& other, const Problem& problem, std::uint64_t key,
                 Totals& totals, Complaints& complaints) {
  const Inputs inputs = materialise(problem);
  oracle::AttentionOracle oracle(contract, problem, inputs);
  // Beside the largest double nothing is left of a score in fewer bits.
  const certify::Precision precision(problem.dtype == Format::f64 ? 8 * certify::first_bits : certify::first_bits);
  const certify::Constants none(other, inputs, 0), twice(other, inputs, 2);
  const auto pick = [&key](Index n) {
    return static_cast<Index>(below(key = mix(key), static_cast<std::uint64_t>(n)));
  };
  const Index b = pick(problem.b), h = pick(problem.hq), i = pick(problem.lq);
  const certify::Row row(none, other, inputs, {b, h, i}), wide_row(twice, other, inputs, {b, h, i});
  ++totals.problems;
  totals.lost += row.score_lost;
  totals.exact += none.exact_scores;
  const bool flush = contract.arithmetic.flush_to_zero, overflows = nearly_overflows(inputs, b, h, i);
  const auto together = [&](const oracle::Enclosure& o, const certify::Enclosure& proof, const certify::Enclosure& wide,
                            Format stage, Format tensor, const char* what, Index c) {
    const std::string where =
        fmt::format("{} under {} {}[{},{},{},{}]", to_text(problem), json_text(to_json(contract)), what, b, h, i, c);
    compare({o, proof, widened(wide), {stage, tensor, flush}, {stage, tensor, flush}, overflows, where}, key, totals,
            complaints);
  };
  for (const Index c : std::set<Index>{pick(problem.dv), pick(problem.dv)}) {
    const std::array<Index, 4> place{b, h, i, c};
    const Format output = contract.policy[Stage::output];
    together(oracle.out_enclosure(b, h, i, c), out_enclosure(none, other, inputs, row, place),
             out_enclosure(twice, other, inputs, wide_row, place), output, problem.dtype, "out", c);
    together(oracle.hull_enclosure(b, h, i, c), hull_enclosure(none, other, inputs, row, place),
             hull_enclosure(twice, other, inputs, wide_row, place), output, problem.dtype, "hull", c);
  }
  const Format format = problem.lse == LseOutput::f64 ? Format::f64 : Format::f32;
  together(oracle.lse_enclosure(b, h, i), lse_enclosure(none, row), lse_enclosure(twice, wide_row), format, format,
           "lse", 0);
}

Contract contract_of(std::uint64_t n, std::uint64_t key) {
  const NamedPolicy& named = named_policies()[n % named_policies().size()];
  Contract contract = emulator::draw_any_contract(named.policy, static_cast<int>(n % emulator::all_variants));
  contract.empty_row = static_cast<EmptyRow>(below(mix(key), 5));
  if (below(key, 5) == 0)
    contract.masked_unread = MaskedUnread::yes;
  else
    contract.mask_added = below(mix(key + 1), 3) == 0;
  if (contract.masked_unread == MaskedUnread::yes && contract.empty_row == EmptyRow::mean_all)
    contract.empty_row = EmptyRow::mean_v;
  if (below(mix(key + 2), 6) == 0) emulator::fold_into_score(contract);
  return contract;
}

TEST(Oracle, AgreesWithTheCertificate) {
  const std::uint64_t problems = setting("ATTEST_CERTIFY_PROBLEMS", 1000), seed = setting("ATTEST_CERTIFY_SEED", 1);
  Totals totals;
  Complaints complaints;
  for (std::uint64_t n = 0; n < problems && complaints.empty(); ++n) {
    const std::uint64_t key = mix(seed * 0x9e3779b97f4a7c15u + n);
    const Contract contract = contract_of(n, key);
    compare_row(contract, contract, testing::draw_problem(contract.policy[Stage::storage], key, 24), key, totals,
                complaints);
  }
  for (const std::string& complaint : complaints) ADD_FAILURE() << complaint;
  fmt::print(
      "{} problems, {} elements ({} undetermined, {} of empty rows, {} rows with lost scores), {} values: {} inside, "
      "{} outside, {} permitted\nthe verdicts differ on {} values by the oracle's own error, {} by its overflow, {} by "
      "the "
      "rounding of its radius; least slack {:.2g}\n",
      totals.problems, totals.elements, totals.undetermined, totals.empty, totals.lost, totals.values, totals.inside,
      totals.outside, totals.permitted, totals.edge, totals.beyond, totals.rounding, totals.nearest);
  EXPECT_EQ(totals.problems, static_cast<std::int64_t>(problems));
  EXPECT_GE(totals.inside, totals.problems);
  EXPECT_GE(totals.outside, totals.problems);
  EXPECT_GE(totals.permitted, totals.problems / 10);
  EXPECT_LE(totals.edge, totals.values / 20);
  EXPECT_LE(totals.rounding, totals.values / 1000);
}

// Long rows of which many keys weigh less than a rounding.
TEST(Oracle, AgreesWhereKeysAreLight) {
  Totals totals;
  Complaints complaints;
  for (std::uint64_t n = 0; n < 120 && complaints.empty(); ++n) {
    const std::uint64_t key = mix(n + 0x6c69676874);
    const Contract contract = contract_of(n, key);
    Problem problem = testing::draw_problem(contract.policy[Stage::storage], key, 24);
    problem.lk = 32 + static_cast<Index>(below(mix(key ^ 1), 120));
    problem.d = std::min<Index>(problem.d, 4);
    problem.dv = std::min<Index>(problem.dv, 2);
    problem.keep = Keep::none;
    problem.causal = false;
    problem.lengths = Lengths::none;
    problem.bias = Bias::none;
    problem.softcap = 0;
    problem.values = n % 3 == 0 ? Values::falling : Values::normal;
    problem.amplitude = n % 2 == 0 ? 4 : 1;
    compare_row(contract, contract, problem, key, totals, complaints);
  }
  for (const std::string& complaint : complaints) ADD_FAILURE() << complaint;
  EXPECT_GE(totals.inside, totals.problems);
  EXPECT_GE(totals.outside, totals.problems);
  EXPECT_LE(totals.edge, totals.values / 20);
}

TEST(Oracle, AgreesWhereNoScoreIsRounded) {
  Totals totals;
  Complaints complaints;
  for (std::uint64_t n = 0; n < 400 && complaints.empty(); ++n) {
    const std::uint64_t key = mix(n + 4711);
    Contract contract = contract_of(n, key);
    contract.arithmetic.exp2 = false;
    contract.arithmetic.kappa = 1;
    contract.arithmetic.mma.reset();
    if (below(key, 2) == 0) {
      contract.arithmetic.lse_merge = LseMerge::none;
      contract.arithmetic.lazy = 0;
    }
    Problem problem = testing::draw_problem(contract.policy[Stage::storage], key, 24);
    problem.values = Values::integers;
    problem.q_form = problem.k_form = Form::drawn;
    problem.amplitude = 1;
    problem.scale = std::ldexp(1.0, -2 * static_cast<int>(below(mix(key), 3)));
    problem.softcap = 0;
    compare_row(contract, contract, problem, key, totals, complaints);
  }
  for (const std::string& complaint : complaints) ADD_FAILURE() << complaint;
  EXPECT_GE(totals.exact, totals.problems / 2);
  EXPECT_GE(totals.inside, totals.problems);
  EXPECT_GE(totals.outside, totals.problems);
}

// The comparison can fail: it sees a hundredth of an ulp of exp, a rescaling more and a tile less.
TEST(Oracle, DisagreesWithACertificateOfAnotherContract) {
  using Change = void (*)(Contract&);
  const Change changes[] = {
      [](Contract& c) { c.arithmetic.exp_ulp *= 1.01; },
      [](Contract& c) { c.arithmetic.exp_ulp *= 0.99; },
      [](Contract& c) { c.arithmetic.kv_tile_min = c.arithmetic.kv_tile_min == 1 ? 2 : 1; },
      [](Contract& c) { c.arithmetic.exp2 = !c.arithmetic.exp2; },
      [](Contract& c) { c.arithmetic.mma = Mma{.block = 4, .frac = 23, .out = MmaResult::f32}; },
      [](Contract& c) {
        c.policy.set(Stage::weights, c.policy[Stage::weights] == Format::bf16 ? Format::f32 : Format::bf16);
      },
  };
  for (const Change& change : changes) {
    Totals totals;
    int noticed = 0;
    for (std::uint64_t n = 0; n < 40; ++n) {
      const std::uint64_t key = mix(n + 77);
      Contract contract = contract_for(named_policies()[n % named_policies().size()].policy);
      Contract other = contract;
      change(other);
      Complaints complaints;
      const Problem problem = testing::draw_problem(contract.policy[Stage::storage], key, 24);
      compare_row(contract, other, problem, key, totals, complaints);
      noticed += !complaints.empty();
    }
    EXPECT_GE(noticed, 10) << &change - changes;
  }
}

}  // namespace
}  // namespace attest
