// Single rows on which a kernel that keeps its contract errs as far, and as much to one side, as random inputs were
// found to let it: neither level of the oracle blames it, and no certificate stands against it.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <numbers>
#include <optional>
#include <string>
#include <vector>

#include "certify/certificate.hpp"
#include "core/rng.hpp"
#include "oracle/attention.hpp"

namespace attest {
namespace {

// One query and two keys, the second minus the first, over the values 1 and 0: the output is 1 / (1 + e^-2s).
struct Row {
  Row(Index d, double scale, const std::vector<double>& the_q, const std::vector<double>& the_k) : q(the_q), k(the_k) {
    problem.lk = 2;
    problem.d = d;
    problem.dtype = Format::f32;
    problem.scale = scale;
    const auto set = [this](Edit::Tensor tensor, Index key, Index column, double value) {
      problem.edits.push_back({tensor, {0, 0, key, column}, value});
    };
    for (Index c = 0; c < d; ++c) {
      set(Edit::Tensor::q, 0, c, q[static_cast<std::size_t>(c)]);
      set(Edit::Tensor::k, 0, c, k[static_cast<std::size_t>(c)]);
      set(Edit::Tensor::k, 1, c, -k[static_cast<std::size_t>(c)]);
      exact += q[static_cast<std::size_t>(c)] * k[static_cast<std::size_t>(c)] * scale;
    }
    set(Edit::Tensor::v, 0, 0, 1);
    set(Edit::Tensor::v, 1, 0, 0);
  }

  std::vector<double> q, k;
  Problem problem;
  double exact = 0, computed = 0;  // the score of the first key
};

// Tells whether a certificate stands against this output; the oracle's levels must think the same.
bool blamed(const char* policy, const char* promises, const Problem& problem, double value) {
  const Contract contract = contract_from_text(promises, policy_from_text(policy));
  Tensor out = make_out(problem);
  out.set(0, 0, 0, 0, value);
  const Inputs inputs = materialise(problem);
  oracle::AttentionOracle oracle(contract, problem, inputs);
  const certify::Claim claim{certify::Claim::Tensor::out, {0, 0, 0, 0}, value, false};
  const certify::Certificate certificate = certify::certify(contract, problem, claim);
  const bool stands = certificate.answer == certify::Answer::stands;
  EXPECT_EQ(oracle.judge(out, {}).kind == VerdictKind::fail, stands);
  EXPECT_EQ(oracle.judge_slowly(out, {}).kind == VerdictKind::fail, stands);
  return stands;
}

// Draws 40,000 rows, of which the score that is furthest off must be further than `least`, relative to it, and yet be
// right.
void expect_conforming(const char* policy, const char* promises, double least,
                       const std::function<Row(std::uint64_t seed)>& draw) {
  const auto off = [](const Row& row) { return std::fabs(row.computed - row.exact) / std::fabs(row.exact); };
  Row worst = draw(0);
  for (std::uint64_t seed = 1; seed < 40000; ++seed)
    if (Row row = draw(seed); off(row) > off(worst)) worst = std::move(row);
  EXPECT_GT(off(worst), least);

  const double value = round_to(Format::f32, 1 / (1 + std::exp(-2 * worst.computed)));
  EXPECT_FALSE(blamed(policy, promises, worst.problem, value)) << to_text(worst.problem);
}

// q and k each carry a root of the scale, which was rounded, multiplied by a rounded log2 e and rounded again before;
// so are the inputs, which are finer.
Row roots_of_the_scale(std::uint64_t seed, Format scaling, Format score) {
  const auto round = [scaling](double x) { return round_to(scaling, x); };
  const auto draw = [seed](std::uint64_t salt) {
    return round_to(Format::f32, 1.5 + 0.5 * symmetric_uniform(extend(seed, salt)));
  };
  Row row(1, draw(1), {draw(2)}, {draw(3)});
  const double root = round(std::sqrt(round(round(*row.problem.scale) * round(std::numbers::log2e))));
  row.computed = round_to(score, round(round(row.q[0]) * root) * round(round(row.k[0]) * root)) * std::numbers::ln2;
  return row;
}

TEST(ConformingCorners, RootsOfARoundedScaleInTheNarrowestFormat) {
  expect_conforming("f32,scale=bf16", R"({"lse_merge":"none","lazy":0})", 4.3 * unit_roundoff(Format::bf16),
                    [](std::uint64_t seed) { return roots_of_the_scale(seed, Format::bf16, Format::f32); });
}

TEST(ConformingCorners, RootsOfARoundedScaleWithScoresOfItsFormat) {
  expect_conforming("f32,scale=f16,score=f16", R"({"lse_merge":"none","lazy":0})", 5.3 * unit_roundoff(Format::f16),
                    [](std::uint64_t seed) { return roots_of_the_scale(seed, Format::f16, Format::f16); });
}

// The dot product goes to the score's format, and there once more with what is added to it, which is nothing.
TEST(ConformingCorners, AScoreIsStoredAgainWithABiasOfZero) {
  expect_conforming("f32,score=f16", R"({"exp2":false,"fold":"none","lse_merge":"none","lazy":0})",
                    1.5 * unit_roundoff(Format::f16), [](std::uint64_t seed) {
                      const auto draw = [seed](std::uint64_t salt) {
                        return round_to(Format::f32, 1.5 + 0.5 * symmetric_uniform(extend(seed, salt)));
                      };
                      Row row(1, draw(1), {draw(2)}, {draw(3)});
                      row.problem.bias = Bias::zero;
                      const double stored = round_to(Format::f16, round_to(Format::f32, row.q[0] * row.k[0]));
                      row.computed = round_to(Format::f16, round_to(Format::f32, stored * *row.problem.scale));
                      return row;
                    });
}

// A scale below zero has no root to fold: it meets the score, and log2 e with it, to which the biases are brought,
// rounded there and rounded once more with the score.
TEST(ConformingCorners, BiasesInUnitsOfLog2EUnderAScaleWithoutARoot) {
  const auto off = [](const Row& row) { return std::fabs(row.computed - row.exact); };
  const auto round = [](double x) { return round_to(Format::f16, x); };
  const auto with_log2_e = [&](double x) { return round(x * round_to(Format::f32, std::numbers::log2e)); };
  std::optional<Row> worst;
  for (std::uint64_t seed = 0; seed < 40000; ++seed) {
    const auto draw = [seed](std::uint64_t salt) { return symmetric_uniform(extend(seed, salt)); };
    Row row(1, -0x1p-3, {1}, {round(4 + draw(1))});
    row.problem.bias = Bias::zero;
    row.problem.bias_type = BiasType::f16;
    const double scores[] = {-0.125 * row.k[0], 0.125 * row.k[0]}, biases[] = {round(600 + 50 * draw(2)), 590};
    double stored[2];
    for (Index key = 0; key < 2; ++key) {
      row.problem.edits.push_back({Edit::Tensor::bias, {0, 0, 0, key}, biases[key]});
      stored[key] = round(with_log2_e(scores[key]) + with_log2_e(biases[key])) * std::numbers::ln2;
    }
    row.exact = scores[0] + biases[0] - scores[1] - biases[1];
    row.computed = stored[0] - stored[1];
    if (std::fabs(row.exact) < 2 && (!worst || off(row) > off(*worst))) worst = std::move(row);
  }
  const double value = round_to(Format::f32, 1 / (1 + std::exp(-worst->computed)));
  EXPECT_GT(off(*worst), 2.1 * 600 * unit_roundoff(Format::f16));
  const char* promises = R"({"fold":["sqrt"],"lse_merge":"none","lazy":0})";
  EXPECT_FALSE(blamed("f32,score=f16", promises, worst->problem, value)) << to_text(worst->problem);
  // Who scales scores alone has log2 e in the softmax format.
  EXPECT_TRUE(blamed("f32,score=f16", R"({"fold":"none","lse_merge":"none","lazy":0})", worst->problem, value));
}

// Four products that are two steps among subnormals but for a little, and lose one of these.
TEST(ConformingCorners, TruncatedSubnormals) {
  expect_conforming("f32,qk=f16", R"({"lse_merge":"none","lazy":0,"exp2":false,"fold":"none","kappa":3})", 0.49,
                    [](std::uint64_t seed) {
                      const double k = 0x1p-12 * (2 - 0x1p-8 * (1 + static_cast<double>(seed % 7)));
                      Row row(4, 0x1p+21, std::vector(4, 0x1p-12), std::vector(4, k));
                      row.computed = 4 * std::floor(0x1p-12 * k * 0x1p24) * 0x1p-24 * 0x1p21;
                      return row;
                    });
}

// The sum of one pass over two tiles, whose rescaling is 1 % too much, and weights of a second pass that are 1 % too
// little.
TEST(ConformingCorners, WeightsThatAreComputedAnewShareNoExpWithTheirSum) {
  Problem problem = problem_from_text(
      "op=attention b=1 hq=1 hkv=1 lq=1 lk=2 d=1 dv=1 dtype=f32 scale=0x1p+0 "
      "values=constant:1 edit=k[0,0,0,0]:0x0p+0");
  const double summed = 1 + 1.01 * std::exp(-1), anew = 1 + 0.99 * std::exp(-1);
  const double value = round_to(Format::f32, anew / summed);
  EXPECT_FALSE(blamed("f32", R"({"exp_rel":0.01,"normalise":["lse"]})", problem, value));
  EXPECT_TRUE(blamed("f32", R"({"exp_rel":0.01,"normalise":["before"]})", problem, value));
}

// 2^((s - max s) sigma log2 e) on unscaled scores: sigma log2 e is infinite in f16, and 0 times it NaN.
TEST(ConformingCorners, AScaleThatTheSoftmaxFormatCannotHold) {
  constexpr const char *finer = "f32,softmax=f16", *both = R"({"lse_merge":"none"})",
                       *natural = R"({"lse_merge":"none","exp2":false})";
  const auto at = [](const char* scale) {
    return problem_from_text("b=1 hq=1 hkv=1 lq=1 lk=1 d=1 dv=1 dtype=f32 q_form=zero k_form=zero scale=" +
                             std::string(scale));
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_FALSE(blamed(finer, both, at("0x1p+16"), nan));
  EXPECT_FALSE(blamed(finer, both, at("-0x1p+16"), nan));
  EXPECT_TRUE(blamed(finer, both, at("0x1p+15"), nan));
  EXPECT_TRUE(blamed(finer, natural, at("0x1p+16"), nan));
  EXPECT_TRUE(blamed("f32", both, at("0x1p+16"), nan));
}

// The largest numbers of f16 are 65,536 as an operand in bf16, and that is infinite once more in a scale's format of
// f16.
TEST(ConformingCorners, AnOperandOfWiderRangeThanTheScaleThatIsFoldedIn) {
  const auto at = [](const char* q) {
    return problem_from_text(
        "b=1 hq=1 hkv=1 lq=1 lk=1 d=1 dv=1 dtype=f16 scale=0x1p-2 k_form=zero v_form=zero edit=q[0,0,0,0]:" +
        std::string(q));
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  constexpr const char *wider = "f16,operand=bf16,scale=f16,qk=f32", *folds = R"({"lse_merge":"none"})";
  EXPECT_FALSE(blamed(wider, folds, at("0x1.ffcp+15"), nan));
  EXPECT_TRUE(blamed(wider, folds, at("0x1.fp+15"), nan));
  EXPECT_TRUE(blamed(wider, R"({"lse_merge":"none","fold":"none"})", at("0x1.ffcp+15"), nan));
  EXPECT_TRUE(blamed("f16,operand=bf16,qk=f32", folds, at("0x1.ffcp+15"), nan));
}

// 1/c is infinite in f16 below 2^-16, and no number times 0.
TEST(ConformingCorners, ASoftcapWhoseReciprocalIsInfinite) {
  const auto at = [](const char* cap) {
    return problem_from_text(
        "b=1 hq=1 hkv=1 lq=1 lk=1 d=1 dv=1 dtype=f16 values=constant:1 q_form=zero k_form=zero softcap=" +
        std::string(cap));
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_FALSE(blamed("f16-softmax16", "{}", at("0x1p-16"), nan));
  EXPECT_TRUE(blamed("f16-softmax16", "{}", at("0x1p-15"), nan));
  EXPECT_TRUE(blamed("f16", "{}", at("0x1p-16"), nan));
}

// tanh is off by a few 2^-24 of 2^40, which f32 holds and a score in f16 does not; and so is a cap of 2^16 itself.
TEST(ConformingCorners, ASoftcapOfWiderRangeThanTheScore) {
  const auto at = [](const char* options) {
    return problem_from_text("b=1 hq=1 hkv=1 lq=1 lk=1 d=1 dv=1 dtype=f16 values=constant:1 " + std::string(options));
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  constexpr const char *absolute = R"({"tanh":"absolute"})", *last = R"({"softcap_before_bias":false})";
  EXPECT_FALSE(blamed("f16-scores16", absolute, at("softcap=0x1p+40"), nan));
  EXPECT_TRUE(blamed("f16-scores16", absolute, at("softcap=0x1p+4"), nan));
  EXPECT_FALSE(blamed("f16-scores16", last, at("softcap=0x1p+16 bias=minus_inf seed=2233018724"), nan));
  EXPECT_TRUE(blamed("f16-scores16", last, at("softcap=0x1p+14 bias=minus_inf seed=2233018724"), nan));
}

// The first block has the score -2^128 alone, of which 2^(x log2 e - max log2 e) is infinite by the rounding of the
// maximum. The least subnormal, where it should be 0, brings that sum down: it stays infinite, and the quotient is 0.
TEST(ConformingCorners, AnInfiniteSumThatIsNotBroughtDown) {
  const Problem problem = problem_from_text(
      "b=1 hq=1 hkv=1 lq=1 lk=2 d=1 dv=1 dtype=f64 scale=0x1p+0 values=constant:1 "
      "edit=k[0,0,0,0]:-0x1p+128;k[0,0,1,0]:0x0p+0");
  EXPECT_FALSE(blamed("f64", "{}", problem, 0));
  EXPECT_TRUE(blamed("f64", R"({"exp2":false})", problem, 0));
}

// Likewise where that sum is finite: the first block's weight is e^60 too large, and 2^-149 as a factor leaves 2^-62 of
// it.
TEST(ConformingCorners, AWrongShiftIsBroughtDownByTheLeastSubnormal) {
  const Problem problem = problem_from_text(
      "b=1 hq=1 hkv=1 lq=1 lk=2 d=1 dv=1 dtype=f32 scale=0x1p+0 values=constant:1 "
      "edit=k[0,0,0,0]:-0x1p+28;k[0,0,1,0]:0x0p+0;v[0,0,1,0]:0x0p+0");
  EXPECT_FALSE(blamed("f32", "{}", problem, 0x1p-62));
  EXPECT_TRUE(blamed("f32", "{}", problem, 0x1p-20));
  EXPECT_TRUE(blamed("f32", R"({"exp2":false,"merge_weights":"normalised"})", problem, 0x1p-62));
}

}  // namespace
}  // namespace attest
