// The certificate of attention blocks and their oracle share docs/mha.md and no code: over random problems and contracts, ball
// arithmetic gives the interval that float64 gives for every way that a contract permits, and the same verdict on values on its
// edges and off them.
//
// The oracle adds terms for its own rounding, the certificate makes none: its interval lies between those of the certificate with
// these terms left out and counted several times, and on a value between the two the oracle may accept what the certificate proves
// wrong. Such values are counted.
//
// ATTEST_CERTIFY_PROBLEMS (600) and ATTEST_CERTIFY_SEED (1) choose the problems.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "certify/mha/certificate.hpp"
#include "certify/rounding.hpp"
#include "core/mha/inputs.hpp"
#include "core/rng.hpp"
#include "oracle/mha/mha.hpp"
#include "oracle/outcome.hpp"
#include "tests/certify/values.hpp"
#include "tests/oracle/mha_draw.hpp"
#include "tests/setting.hpp"

namespace attest {
namespace {

using certify::Answer;
constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double many = 5;  // times that the oracle's own errors are counted

struct Totals {
  std::int64_t problems = 0, elements = 0, undetermined = 0, points = 0, values = 0, inside = 0, outside = 0,
               permitted = 0;
  std::int64_t edge = 0;   // the oracle's own error decides: it accepts what the certificate proves wrong
  std::int64_t apart = 0;  // ends of a stage that the oracle's own error rounds elsewhere
};
using Complaints = std::vector<std::string>;
// What is done to the oracle's enclosure before it is compared, so that a wrong one is seen to be refuted.
using Plant = std::function<void(oracle::Enclosure&, Format)>;

struct Pair {
  const oracle::Enclosure& oracle;
  const certify::Enclosure &proof, &wide;
  Format stage, tensor;
  bool flush;
  std::string where;
  double least = 0;  // what doubles among subnormal numbers may have rounded off the oracle's ends
};

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

struct Asked {
  testing::NamedBlockContract named;
  mha::Problem problem;
};
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

// One element of a problem, for each way that the contract permits. The certificate is given `other`.
void compare_element(const Asked& of, const mha::Contract& contract, const mha::Contract& other, std::uint64_t key,
                     Totals& totals, Complaints& complaints, const Plant& plant = {}) {
  const mha::Problem& p = of.problem;
  const mha::Inputs inputs = mha::materialise(p);
  const Tensor out = mha::make_out(p);
  const mha::Call call = inputs.call(out);
  oracle::MhaOracle oracle(contract, call);
  const auto ways = oracle::ways_of(contract);
  const auto pick = [&key](Index n) {
    return static_cast<Index>(below(key = mix(key), static_cast<std::uint64_t>(n)));
  };
  const Index b = pick(p.b), i = pick(p.l), e = pick(p.e);
  // A step of each head's ends, as it enters.
  double least = 0;
  if (p.dtype == Format::f64) {
    double weights = 1;
    for (Index c = 0; c < p.q_width(); ++c) weights += std::fabs(inputs.w_out.at(e, c));
    least = 0x1p-1073 * weights;
  }
  ++totals.problems;
  const certify::Precision precision(p.dtype == Format::f64 ? 4 * certify::first_bits : certify::first_bits);
  for (std::size_t n = 0; n < ways.size(); ++n) {
    const certify::mha::Going going{ways[n].projected, ways[n].heads_rounded};
    certify::mha::Block none(other, inputs, going, 0), wide(other, inputs, going, many);
    oracle::Enclosure enclosure = oracle.enclosure(n, b, i, e);
    if (plant) plant(enclosure, p.dtype);
    const certify::Enclosure proof = none.element(b, i, e), around = wide.element(b, i, e);
    totals.apart += none.uncertain();
    const std::string where = fmt::format("{} under {} {} way {} out[{},{},{}]", mha::to_text(p), of.named.policy,
                                          of.named.numbers, n, b, i, e);
    compare({enclosure, proof, around, contract.attention.policy[Stage::output], p.dtype,
             contract.attention.arithmetic.flush_to_zero, where, least},
            key, totals, complaints);
  }
}

TEST(MhaCertificate, AgreesWithTheOracle) {
  const std::uint64_t problems = setting("ATTEST_CERTIFY_PROBLEMS", 600), seed = setting("ATTEST_CERTIFY_SEED", 1);
  Totals totals;
  Complaints complaints;
  for (std::uint64_t n = 0; n < problems && complaints.empty(); ++n) {
    const std::uint64_t key = mix(seed * 0x9e3779b97f4a7c15u + n);
    const Asked of = asked(key);
    const mha::Contract contract = of.named.contract();
    compare_element(of, contract, contract, key, totals, complaints);
  }
  for (const std::string& complaint : complaints) ADD_FAILURE() << complaint;
  fmt::print(
      "{} problems, {} elements ({} undetermined, {} points), {} values: {} inside, {} outside, {} permitted; "
      "the oracle's own error decides {}\n",
      totals.problems, totals.elements, totals.undetermined, totals.points, totals.values, totals.inside,
      totals.outside, totals.permitted, totals.edge);
  EXPECT_EQ(totals.problems, static_cast<std::int64_t>(problems));
  EXPECT_GE(totals.inside, totals.problems);
  EXPECT_GE(totals.outside, totals.problems);
  EXPECT_LE(totals.edge, totals.values / 20);
  EXPECT_LE(totals.undetermined, totals.elements / 3);
}

void compare_elements(const char* policy, const char* numbers, const char* problem) {
  const Asked of{{policy, numbers}, mha::problem_from_text(problem)};
  const mha::Contract contract = of.named.contract();
  Totals totals;
  Complaints complaints;
  for (std::uint64_t key = 0; key < 40; ++key) compare_element(of, contract, contract, key, totals, complaints);
  for (const std::string& complaint : complaints) ADD_FAILURE() << complaint;
  EXPECT_EQ(totals.elements, 40);
}

// A term both of whose factors may be flushed counts once.
TEST(MhaCertificate, AgreesOnTermsOfTwoFlushedFactors) {
  compare_elements("f16,gemm=f16", R"({"flush_to_zero":true,"kappa":3,"projections":"unrounded","heads":"unrounded"})",
                   "op=mha b=1 l=1 m=4 e=16 heads=2 kv_heads=2 head_dim=4 dtype=f16 packed=1 causal=1 "
                   "align=bottom_right biases=all weights=dense amplitude=0x1p-14 seed=4660863283937387732");
}

// Ends of heads that are subnormal doubles are rounded to whole steps, of which weights make many.
TEST(MhaCertificate, AgreesOnSubnormalHeadsInDouble) {
  compare_elements("f64", R"({"projections":"unrounded","heads":"unrounded"})",
                   "op=mha b=1 l=7 m=7 e=2 heads=2 kv_heads=2 head_dim=1 dtype=f64 self=1 align=bottom_right "
                   "bias=shared biases=in weights=uniform seed=17168125560463552702");
}

// Long rows of which many keys weigh less than a rounding.
TEST(MhaCertificate, AgreesWhereKeysAreLight) {
  Totals totals;
  Complaints complaints;
  for (std::uint64_t n = 0; n < 40 && complaints.empty(); ++n) {
    const std::uint64_t key = mix(n + 0x6c69676874);
    Asked of = asked(key);
    of.problem.m = 32 + static_cast<Index>(below(key, 60));
    of.problem.self = of.problem.causal = false;
    of.problem.l = 2;
    of.problem.head_dim = std::min<Index>(of.problem.head_dim, 3);
    of.problem.padding = mha::Padding::none;
    of.problem.weights = n % 2 == 0 ? mha::Weights::dense : mha::Weights::dense_out;
    of.problem.amplitude = n % 3 == 0 ? 1 : 4;
    const mha::Contract contract = of.named.contract();
    compare_element(of, contract, contract, key, totals, complaints);
  }
  for (const std::string& complaint : complaints) ADD_FAILURE() << complaint;
  EXPECT_GE(totals.inside, totals.problems);
  EXPECT_GE(totals.outside, totals.problems);
}

// The comparison can fail: an end that is wrong by an ulp of the tensor is refuted wherever it matters, either way.
TEST(MhaCertificate, RefutesAPlantedWrongValue) {
  for (const bool outwards : {true, false}) {
    Totals totals;
    int refuted = 0, told = 0;
    for (std::uint64_t n = 0; n < 60; ++n) {
      const std::uint64_t key = mix(n + 0x706c616e74);
      const Asked of = asked(key);
      if (of.problem.dtype == Format::f64) continue;  // whose ulp is the oracle's own error
      const mha::Contract contract = of.named.contract();
      Complaints complaints;
      bool planted = false;
      compare_element(of, contract, contract, key, totals, complaints, [&](oracle::Enclosure& e, Format format) {
        planted =
            e.expect == oracle::Expect::number && !e.undetermined && (outwards || e.hi - e.lo > 1e-9 * std::fabs(e.hi));
        const double ulp = 2 * unit_roundoff(format) * std::max(std::fabs(e.hi), smallest_normal(format));
        if (planted) e.hi += outwards ? ulp : -std::min(ulp, (e.hi - e.lo) / 2);
      });
      told += planted;
      refuted += planted && !complaints.empty();
    }
    EXPECT_GT(told, 20) << outwards;
    EXPECT_EQ(refuted, told) << outwards;
  }
}

TEST(MhaCertificate, DisagreesWithAnotherContract) {
  const auto differing = [](const char* policy, const char* numbers,
                            const std::function<void(mha::Contract&)>& change) {
    int differ = 0;
    for (std::uint64_t n = 0; n < 60; ++n) {
      const std::uint64_t key = mix(n + 17);
      Asked of{{policy, numbers}, {}};
      of.problem = testing::draw_block(mha::policy_from_text(policy).attention[Stage::storage], key);
      of.problem.weights = mha::Weights::dense;
      of.problem.e = std::min<Index>(of.problem.e, 16);
      const mha::Contract contract = of.named.contract();
      mha::Contract other = contract;
      change(other);
      Totals totals;
      Complaints complaints;
      compare_element(of, contract, other, key, totals, complaints);
      differ += !complaints.empty();
    }
    return differ;
  };
  EXPECT_GT(differing("f32", R"({"projections":"unrounded"})", [](mha::Contract& c) { c.gemm_chain = mha::Chain{4}; }),
            20);
  EXPECT_GT(differing("f32", "{}", [](mha::Contract& c) { c.attention.arithmetic.kappa = 3; }), 20);
  EXPECT_GT(differing("f16", R"({"projections":"separate"})", [](mha::Contract& c) { c.gemm = Format::f16; }), 20);
  EXPECT_GT(differing("f32", "{}", [](mha::Contract& c) { c.attention.arithmetic.exp_ulp = 1.01; }), 20);
}

TEST(MhaCertificate, StandsForWhatNoWayPermits) {
  int asked_of = 0;
  for (std::uint64_t n = 0; n < 60; ++n) {
    const std::uint64_t key = mix(n + 99);
    const Asked of = asked(key);
    const mha::Contract contract = of.named.contract();
    const mha::Inputs inputs = mha::materialise(of.problem);
    const Tensor out = mha::make_out(of.problem);
    const mha::Call call = inputs.call(out);
    oracle::MhaOracle oracle(contract, call);
    const std::array<Index, 4> at{0, of.problem.l - 1, of.problem.e - 1, 0};
    double top = -infinity, middle = 0;
    bool open = false;
    for (std::size_t way = 0; way < oracle.ways(); ++way) {
      const oracle::Enclosure e = oracle.enclosure(way, at[0], at[1], at[2]);
      open = open || e.undetermined || e.expect != oracle::Expect::number || !std::isfinite(e.hi);
      top = std::max(top, e.hi);
      middle = e.y;
    }
    if (open) continue;
    const double past = step(of.problem.dtype, round_to(of.problem.dtype, top), true);
    if (!std::isfinite(past)) continue;
    const auto wrong = certify::mha::certify(contract, of.problem, {at, step(of.problem.dtype, past, true)});
    const auto right = certify::mha::certify(contract, of.problem, {at, round_to(of.problem.dtype, middle)});
    EXPECT_EQ(wrong.answer, Answer::stands) << mha::to_text(of.problem) << ' ' << wrong.why;
    EXPECT_EQ(right.answer, Answer::falls) << mha::to_text(of.problem) << ' ' << right.why;
    EXPECT_EQ(wrong.ways.size(), oracle.ways());
    ++asked_of;
  }
  EXPECT_GT(asked_of, 30);
  EXPECT_THROW((void)certify::mha::certify(mha::contract_for(mha::policy_from_text("f16")),
                                           mha::Problem{.e = 2, .dtype = Format::f16}, {{0, 0, 2, 0}, 1}),
               std::exception);
}

// Heads of whatever projections may leave, as the oracle has them where nothing was given, way by way. `off`: another chain is told
// to the certificate, so that they differ.
void compare_heads(std::uint64_t key, bool off, Totals& totals, Complaints& complaints) {
  const Asked of = asked(key);
  const mha::Problem& p = of.problem;
  if (p.dtype == Format::f64) return;  // whose ulp is the oracle's own error
  const mha::Contract contract = of.named.contract();
  mha::Contract told = contract;
  if (off) told.attention.arithmetic.exp_ulp += 50;
  const mha::Inputs inputs = mha::materialise(p);
  const Tensor out = mha::make_out(p);
  const mha::Call call = inputs.call(out);
  oracle::MhaOracle oracle(contract, call);
  const auto pick = [&](std::uint64_t salt, Index count) {
    return static_cast<Index>(below(mix(key + salt), static_cast<std::uint64_t>(count)));
  };
  const Index b = pick(1, p.b), i = pick(2, p.l), c = pick(3, p.q_width());
  ++totals.problems;
  const certify::Precision precision(certify::first_bits);
  for (std::size_t n = 0; n < oracle.ways(); ++n) {
    const oracle::WayName name = oracle::ways_of(contract)[n];
    const certify::mha::Going going{name.projected, name.heads_rounded};
    certify::mha::Block none(told, inputs, going, 0), wide(told, inputs, going, many);
    const auto stages = oracle.stages(n);
    const oracle::Enclosure enclosure = stages->enclosure(oracle::BlockStage::heads, {b, i, c, 0});
    const Format left = stages->rounding(oracle::BlockStage::heads, DType::f32).stage;
    const certify::Enclosure proof = none.head(b, i, c), around = wide.head(b, i, c);
    EXPECT_EQ(none.heads_left(), left);
    compare({enclosure, proof, around, left, left, contract.attention.arithmetic.flush_to_zero,
             fmt::format("{} under {} {} way {} heads[{},{},{}]", mha::to_text(p), of.named.policy, of.named.numbers, n,
                         b, i, c)},
            key, totals, complaints);
  }
}

TEST(MhaCertificate, HeadsAgreeWithTheOracle) {
  const std::uint64_t problems = setting("ATTEST_CERTIFY_PROBLEMS", 600), seed = setting("ATTEST_CERTIFY_SEED", 1);
  Totals totals;
  Complaints complaints;
  for (std::uint64_t n = 0; n < problems && complaints.empty(); ++n)
    compare_heads(mix(seed * 0x9e3779b97f4a7c15u + n + 0x68656164), false, totals, complaints);
  for (const std::string& complaint : complaints) ADD_FAILURE() << complaint;
  fmt::print("heads: {} problems, {} elements ({} undetermined), {} values: {} inside, {} outside, {} permitted\n",
             totals.problems, totals.elements, totals.undetermined, totals.values, totals.inside, totals.outside,
             totals.permitted);
  EXPECT_GE(totals.inside, totals.problems);
  EXPECT_GE(totals.outside, totals.problems / 2);

  Complaints others;
  for (std::uint64_t n = 0; n < 100; ++n) compare_heads(mix(n + 0x6f746865), true, totals, others);
  EXPECT_GT(others.size(), 20u);
}

// What of q, k or v one element may be, of every way, and what certify() says of claims of it. `planted`: the oracle's upper end is
// told as a number of the stage's format higher than it is.
struct Projections {
  Totals totals;
  Complaints complaints;
  int points = 0, apart = 0;
  bool planted = false;
};

using ClaimOf = certify::mha::Claim::Tensor;

void compare_projection(const Asked& of, std::size_t which, const std::array<Index, 4>& at, std::uint64_t key,
                        Projections& to) {
  const mha::Problem& p = of.problem;
  const mha::Contract contract = of.named.contract();
  const mha::Inputs inputs = mha::materialise(p);
  const Tensor out = mha::make_out(p);
  const mha::Call call = inputs.call(out);
  oracle::MhaOracle oracle(contract, call);
  const oracle::BlockStage stage = oracle::block_stages[which];
  const auto projection = static_cast<certify::mha::Block::Projection>(which);
  const ClaimOf tensor = std::array{ClaimOf::q, ClaimOf::k, ClaimOf::v}[which];
  const bool flush = contract.attention.arithmetic.flush_to_zero;
  ++to.totals.problems;
  for (std::size_t way = 0; way < oracle.ways(); ++way) {
    const oracle::WayName name = oracle::ways_of(contract)[way];
    const auto stages = oracle.stages(way);
    oracle::Enclosure e = stages->enclosure(stage, at);
    const Format left = stages->rounding(stage, DType::f32).stage;
    const certify::Precision precision(certify::first_bits);
    const certify::mha::Going going{name.projected, name.heads_rounded};
    const certify::mha::Block none(contract, inputs, going, 0), wide(contract, inputs, going, many);
    const certify::Enclosure proof = none.projected(projection, at), around = wide.projected(projection, at);
    EXPECT_EQ(none.left(), left);
    if (to.planted && !e.undetermined) e.hi = step(left, step(left, round_to(left, e.hi), true), true);
    const std::string where = fmt::format("{} under {} {} way {} {}[{},{},{},{}]", mha::to_text(p), of.named.policy,
                                          of.named.numbers, way, oracle::name(stage), at[0], at[1], at[2], at[3]);
    compare({e, proof, around, left, left, flush, where}, key, to.totals, to.complaints);
    if (e.undetermined) continue;
    ++(e.lo == e.hi ? to.points : to.apart);

    // certify() of this way alone says what the interval says.
    mha::Contract alone = contract;
    for (bool& permitted : alone.projections) permitted = false;
    alone.projections[static_cast<std::size_t>(name.projected)] = true;
    alone.heads_rounded = name.heads_rounded;
    alone.heads_unrounded = !name.heads_rounded;
    const certify::Rounding round{left, left, flush};
    for (const double end : {round(proof.lo).least, round(proof.hi).most})
      for (const double value : {end, step(left, end, true), step(left, end, false)}) {
        if (!std::isfinite(value)) continue;
        const certify::Judgement said = judge(proof, round, value);
        if (said.answer == Answer::undecided) continue;
        EXPECT_EQ(certify::mha::certify(alone, p, {at, value, tensor}).answer, said.answer) << where << " " << value;
      }
  }
}

void compare_projection(std::uint64_t key, Projections& to) {
  const Asked of = asked(key);
  const mha::Problem& p = of.problem;
  if (p.dtype == Format::f64) return;  // whose ulp is the oracle's own error
  const auto which = static_cast<std::size_t>(below(key, 3));
  const auto pick = [&](std::uint64_t salt, Index count) {
    return static_cast<Index>(below(mix(key + salt), static_cast<std::uint64_t>(count)));
  };
  compare_projection(
      of, which,
      {pick(1, p.b), pick(2, which == 0 ? p.heads : p.kv_heads), pick(3, which == 0 ? p.l : p.m), pick(4, p.head_dim)},
      key, to);
}

TEST(MhaCertificate, ProjectionsAgreeWithTheOracle) {
  const std::uint64_t problems = setting("ATTEST_CERTIFY_PROBLEMS", 600), seed = setting("ATTEST_CERTIFY_SEED", 1);
  Projections all;
  for (std::uint64_t n = 0; n < problems; ++n)
    compare_projection(mix((seed - 1) * 0x9e3779b97f4a7c15u + n + 0x71756572), all);
  for (const std::string& complaint : all.complaints) ADD_FAILURE() << complaint;
  const Totals& totals = all.totals;
  fmt::print(
      "projections: {} problems, {} elements ({} undetermined, {} points), {} values: {} inside, {} outside, {} "
      "permitted; the oracle's own error decides {}\n",
      totals.problems, totals.elements, totals.undetermined, totals.points, totals.values, totals.inside,
      totals.outside, totals.permitted, totals.edge);
  EXPECT_GE(totals.inside, totals.problems);
  EXPECT_GE(totals.outside, totals.problems);
  EXPECT_LE(totals.edge, totals.values / 50);
  EXPECT_GT(all.points, 50);
  EXPECT_GT(all.apart, 50);

  // An end two numbers off is seen.
  Projections off;
  off.planted = true;
  for (std::uint64_t n = 0; n < 60; ++n) compare_projection(mix(n + 0x71756572), off);
  EXPECT_GT(off.complaints.size(), 30u);
}

// Ends may be ties of the format, of numbers flushed to a power of two most of all. There the oracle's own error, however small,
// takes the number farther out, and the certificate, which has none, the even one: neither is wrong.
TEST(MhaCertificate, ProjectionsWhoseEndIsATie) {
  struct Case {
    const char *policy, *numbers, *problem;
    std::array<Index, 4> at;
  };
  constexpr const char* both = R"({"flush_to_zero":true,"projections":["rounded","unrounded"],"heads":"rounded"})";
  const Case cases[] = {
      {"f16-all",
       R"({"flush_to_zero":true})",
       "op=mha b=1 l=10 m=10 e=9 heads=1 kv_heads=1 head_dim=6 dtype=f16 self=1 packed=1 biases=none "
       "weights=power_of_two amplitude=0x1p-12 seed=18034939919508343671",
       {0, 0, 0, 3}},
      {"f32",
       both,
       "op=mha b=1 l=8 m=12 e=16 heads=1 kv_heads=1 head_dim=1 dtype=f32 scale=0x1p+2 align=bottom_right biases=none "
       "weights=power_of_two amplitude=0x1p-125 seed=10898719381196061419",
       {0, 0, 2, 0}},
      {"bf16",
       R"({"flush_to_zero":true,"projections":"separate"})",
       "op=mha b=1 l=9 m=8 e=8 heads=1 kv_heads=1 head_dim=2 dtype=bf16 scale=0x1p-2 padding=scattered biases=none "
       "weights=power_of_two amplitude=0x1p-125 seed=15356996436313354082",
       {0, 0, 8, 1}}};
  for (const Case& c : cases) {
    Projections one;
    compare_projection({{c.policy, c.numbers}, mha::problem_from_text(c.problem)}, 0, c.at, 1, one);
    for (const std::string& complaint : one.complaints) ADD_FAILURE() << complaint;
    EXPECT_GT(one.totals.edge, 0) << c.problem;
  }
}

}  // namespace
}  // namespace attest
