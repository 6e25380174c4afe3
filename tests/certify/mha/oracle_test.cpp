// Elements of out: comparing.hpp says what is compared.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "core/mha/inputs.hpp"
#include "core/rng.hpp"
#include "tests/certify/mha/comparing.hpp"
#include "tests/certify/values.hpp"
#include "tests/setting.hpp"

namespace attest::certifying {
namespace {

using certify::Answer;

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
  for (std::uint64_t n = 0; n < problems && complaints.size() < 20; ++n) {
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
      if (of.problem.dtype == Format::f64) continue;  // an ulp of float64 is the oracle's own error
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

// A weight of 2^21 is infinite in an operand of f16: nobody knows then what comes out, in the proof nor in the oracle.
TEST(MhaCertificate, KnowsNoResultOfAFactorThatOperandsDoNotHold) {
  for (const char* operand : {"f16", "f32"}) {
    const mha::Contract contract = mha::contract_for(mha::policy_from_text(fmt::format("f64,operand={}", operand)));
    const mha::Inputs inputs = mha::materialise(mha::problem_from_text(
        "b=1 l=1 m=1 e=2 heads=1 kv_heads=1 head_dim=1 dtype=f64 biases=none weights=zero seed=0 "
        "edits=x[0,0,0]:0x1p+0;x[0,0,1]:0x1p+0;w_v[0,0]:0x1p+21;w_v[0,1]:0x1p+0;w_out[0,0]:0x1p+0"));
    Tensor out = mha::make_out(inputs.problem);
    oracle::MhaOracle oracle(contract, inputs.call(out));
    const bool lost = operand == std::string_view("f16");
    for (std::size_t n = 0; n < oracle::ways_of(contract).size(); ++n) {
      const oracle::Enclosure enclosure = oracle.enclosure(n, 0, 0, 0);
      EXPECT_EQ(enclosure.undetermined, lost) << operand;
      EXPECT_EQ(enclosure.nonfinite_ok, lost) << operand;
      const auto way = oracle::ways_of(contract)[n];
      certify::mha::Block proof(contract, inputs, {way.projected, way.heads_rounded}, 0);
      EXPECT_EQ(static_cast<bool>(proof.element(0, 0, 0).undetermined), lost) << operand;
    }
  }
}

}  // namespace
}  // namespace attest::certifying
