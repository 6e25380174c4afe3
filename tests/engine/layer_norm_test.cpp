// Calls of layer_norm apart from a campaign: they are saved, judged, bounded and compared, and their precision is told.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <optional>

#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "core/layer_norm/policy.hpp"
#include "engine/campaign.hpp"
#include "engine/compare.hpp"
#include "engine/effective.hpp"
#include "engine/judge.hpp"
#include "engine/tolerance.hpp"
#include "ops/layer_norm.hpp"
#include "subjects/builtin.hpp"
#include "tests/engine/saved_arrays.hpp"

namespace attest {
namespace {

using engine::Effective;
using ops::Exchange;

const ops::Op& op = ops::layer_norm_op();

ops::Contract contract_of(const std::string& policy, const std::string& numbers = "{}") {
  return op.contract_from_json(nlohmann::json::parse(numbers), op.policy_from_text(policy));
}

// The call of a problem, answered by a subject that computes in `policy`.
std::unique_ptr<Exchange> answered(const std::string& problem, const std::string& subject, const std::string& policy) {
  auto exchange = op.exchange(ops::problem_from_text(problem));
  EXPECT_EQ(builtin_subject(subject, policy)->open()->run_one(exchange->call()).status, CallStatus::done);
  return exchange;
}

Saved saved(const std::string& problem, const std::string& subject, const std::string& policy) {
  const auto exchange = answered(problem, subject, policy);
  const auto type = policy.starts_with("f16") ? NamedArray::Type::f16 : NamedArray::Type::f32;
  Saved s;
  s.op = &op;
  s.policy = policy;
  for (const ops::NamedTensor& input : exchange->inputs())
    s.inputs.push_back(array_of(input, input.tensor->dtype() == DType::f32 ? NamedArray::Type::f32 : type));
  for (const ops::NamedTensor& output : exchange->outputs()) s.outputs.push_back(array_of(output, type));
  s.words["epsilon"] = "1e-5";
  return s;
}

constexpr const char* whole =
    "op=layer_norm rows=5 hidden=24 dtype=f16 residual=like_x sum_out=1 param_type=f32 values=normal seed=3";
constexpr const char* plain = "op=layer_norm rows=70 hidden=24 dtype=f32 values=normal seed=4";

TEST(LayerNormJudge, HoldsWhatConformingKernelsReturn) {
  for (const char* subject : {"builtin:ln-fused", "builtin:ln-explicit"}) {
    const engine::Judgement of_whole = saved(whole, subject, "f16").judged(contract_of("f16"));
    EXPECT_EQ(of_whole.verdict.kind, VerdictKind::pass) << subject;
    EXPECT_EQ(of_whole.verdict.counts.judged, 2 * 5 * 24);
    EXPECT_EQ(saved(plain, subject, "f32").judged(contract_of("f32")).verdict.kind, VerdictKind::pass) << subject;
  }
}

TEST(LayerNormJudge, FailsAFaultAndCountsItsElements) {
  const char* odd = "op=layer_norm rows=70 hidden=25 dtype=f32 values=normal seed=4";  // it misses the last column
  const engine::Judgement judgement = saved(odd, "fault:ln-tail", "f32").judged(contract_of("f32"));
  ASSERT_EQ(judgement.verdict.kind, VerdictKind::fail);
  EXPECT_GT(judgement.survey->outside, 70);
  EXPECT_EQ(judgement.survey->inside + judgement.survey->outside + judgement.survey->undetermined, 70 * 25);
  Saved s = saved(plain, "builtin:ln-fused", "f32");
  s.outputs[0].bytes[4 * 100 + 3] ^= std::byte{0x80};  // the sign of element 100
  const engine::Judgement one = s.judged(contract_of("f32"));
  ASSERT_EQ(one.verdict.kind, VerdictKind::fail);
  EXPECT_EQ(one.survey->outside, 1);
  EXPECT_EQ(one.survey->rows, 70);
  EXPECT_EQ(one.survey->worst.index, (std::array<std::int64_t, 4>{100 / 24, 100 % 24, 0, 0}));
}

TEST(LayerNormJudge, FailsAWrongSumAndWrongOptions) {
  Saved sum = saved(whole, "builtin:ln-fused", "f16");
  sum.outputs[1].bytes[1] ^= std::byte{0x80};
  ASSERT_EQ(sum.judged(contract_of("f16")).verdict.kind, VerdictKind::fail);
  EXPECT_EQ(sum.judged(contract_of("f16")).verdict.evidence->tensor, "sum_out");
  Saved rms = saved(plain, "builtin:ln-fused", "f32");
  rms.words["rms"] = "";
  EXPECT_EQ(rms.judged(contract_of("f32")).verdict.kind, VerdictKind::fail);
}

TEST(LayerNormSaved, NamesWhatDoesNotFit) {
  const auto says = [](const std::function<void(Saved&)>& change, const std::string& words) {
    Saved s = saved(whole, "builtin:ln-fused", "f16");
    change(s);
    const std::string said = s.refusal();
    EXPECT_NE(said.find(words), std::string::npos) << said;
  };
  says([](Saved&) {}, "(taken)");
  says([](Saved& s) { s.inputs[0].name = "input"; }, "no array x: they hold input");
  says([](Saved& s) { s.words["x"] = "hidden_states"; }, "no array hidden_states");
  says([](Saved& s) { s.inputs.erase(s.inputs.begin() + 1); }, "no residual that is in it");
  says([](Saved& s) { s.inputs[2].shape = {12, 2}; }, "gamma is f32 [12, 2]: it must be [24]");
  says([](Saved& s) { s.outputs[0].shape = {24, 5}; }, "it must be [5, 24], as x is");
  says([](Saved& s) { s.inputs.push_back(s.inputs[0]), s.inputs.back().name = "weight"; },
       "weight that nothing asks for");
  says([](Saved& s) { s.inputs[0].type = NamedArray::Type::i32; }, "must be f16, bf16, f32 or f64");
  // More axes are rows.
  says(
      [](Saved& s) {
        for (NamedArray* array : {&s.inputs[0], &s.inputs[1], &s.outputs[0], &s.outputs[1]}) array->shape = {5, 1, 24};
      },
      "(taken)");
}

TEST(LayerNormSaved, TakesWeightsThatNoHalfHoldsForF32) {
  EXPECT_EQ(saved(whole, "builtin:ln-fused", "f16").call().exchange->inputs()[2].tensor->dtype(), DType::f32);
  const Saved halves = saved("op=layer_norm rows=2 hidden=8 dtype=f16 values=normal seed=4", "builtin:ln-fused", "f16");
  EXPECT_EQ(halves.call().exchange->inputs()[1].tensor->dtype(), DType::f16);
}

// ---- what is permitted, element by element, is what the verdict says ------------------------------------------------

TEST(LayerNormWalk, AgreesWithTheVerdict) {
  for (const char* subject : {"builtin:ln-fused", "fault:ln-tail", "fault:ln-policy-ignored"})
    for (const char* text : {plain, whole}) {
      const std::string policy = text == plain ? "f32" : "f16";
      const auto exchange = answered(text, subject, policy);
      const Verdict verdict = exchange->judge(contract_of(policy));
      std::int64_t outside = 0, all = 0;
      exchange->walk(contract_of(policy), 1 << 20, [&](const ops::Permitted& at) {
        ++all;
        outside += at.outcome == oracle::Outcome::outside;
        EXPECT_EQ(at.evidence.has_value(), at.outcome == oracle::Outcome::outside);
        const ops::Permitted again = exchange->element(contract_of(policy), at.tensor, at.index);
        EXPECT_EQ(again.lo, at.lo);
        EXPECT_EQ(again.outcome, at.outcome);
      });
      EXPECT_EQ(outside > 0, verdict.kind == VerdictKind::fail) << subject << " " << text;
      EXPECT_EQ(all, text == plain ? 70 * 24 : 2 * 5 * 24);
    }
}

TEST(LayerNormBound, HoldsEveryConformingResult) {
  const engine::Spread spread = engine::spread_of(ops::problem_from_text(plain), contract_of("f32"));
  ASSERT_EQ(spread.ranges.size(), 70u * 24u);
  EXPECT_TRUE(spread.all);
  const auto exchange = answered(plain, "builtin:ln-fused", "f32");
  for (std::size_t n = 0; n < spread.ranges.size(); ++n) {
    const double got = exchange->outputs()[0].tensor->at(static_cast<Index>(n) / 24, static_cast<Index>(n) % 24);
    EXPECT_LE(spread.ranges[n].lo, got);
    EXPECT_GE(spread.ranges[n].hi, got);
  }
  EXPECT_GT(engine::least_atol(spread, engine::Reference::kernel, engine::Rule::sum, 0), 0);
}

// ---- effective precision --------------------------------------------------------------------------------------------

// The precision of a kernel of `actual` where `requested` was asked for.
std::optional<Effective> effective(const std::string& subject, const std::string& requested,
                                   const std::string& actual) {
  std::vector<std::unique_ptr<Exchange>> answers;
  for (const char* values : {"normal", "uniform offset=0x1p+3", "outlier amplitude=0x1p+6", "normal amplitude=0x1p-4"})
    for (const char* hidden : {"3", "8", "24"})
      answers.push_back(answered(std::string("op=layer_norm rows=4 hidden=") + hidden + " dtype=f32 values=" + values +
                                     " gamma=normal beta=normal seed=5",
                                 subject, actual));
  return engine::effective_precision(contract_of(requested), answers);
}

TEST(EffectivePrecision, NamesTheStageThatIsNarrower) {
  for (const char* stage : {"statistics", "normalise", "affine"})
    for (const char* format : {"f16", "bf16"}) {
      const std::string actual = std::string("f32,") + stage + "=" + format;
      const auto found = effective("builtin:ln-fused", "f32", actual);
      ASSERT_TRUE(found) << actual;
      EXPECT_EQ(to_text(found->requested), "f32");
      ASSERT_FALSE(found->fits.empty()) << actual;
      EXPECT_TRUE(std::ranges::count(found->fits, op.policy_from_text(actual))) << actual << ": " << to_text(*found);
      for (const engine::Policy& policy : found->fits) EXPECT_NE(policy, op.policy_from_text("f32"));
    }
}

TEST(EffectivePrecision, SaysHowManyStagesAreNarrower) {
  const auto found = effective("fault:ln-policy-ignored", "f32", "f32");
  ASSERT_TRUE(found);
  ASSERT_FALSE(found->fits.empty()) << to_text(*found);
  EXPECT_TRUE(std::ranges::any_of(found->fits, [](const engine::Policy& policy) {
    const auto& own = policy.as<layer_norm::Policy>();
    return own[layer_norm::Stage::statistics] == Format::f16;
  })) << to_text(*found);
}

TEST(EffectivePrecision, SaysNothingOfWhatWasKept) {
  EXPECT_FALSE(effective("builtin:ln-fused", "f32", "f32"));
  EXPECT_FALSE(effective("builtin:ln-fused", "f32,statistics=f16", "f32"));  // better than asked
}

// One pass loses what a narrower stage does: both are said.
TEST(EffectivePrecision, TellsOfAVarianceThatCostsAsMuch) {
  std::vector<std::unique_ptr<Exchange>> answers;
  answers.push_back(answered("op=layer_norm rows=4 hidden=64 dtype=f32 values=normal offset=0x1p+10 seed=5",
                             "fault:ln-variance-cancel", "f32"));
  const auto found = engine::effective_precision(contract_of("f32"), answers);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->otherwise, std::vector<std::string>{"variance=one_pass"}) << to_text(*found);
}

// A NaN may come of anything.
TEST(EffectivePrecision, SaysNothingOfANumberThatIsNone) {
  std::vector<std::unique_ptr<Exchange>> answers;
  answers.push_back(answered(plain, "builtin:ln-fused", "f32"));
  store(answers.back()->outputs().front().tensor->view(), 3, 4, 0, 0, std::numeric_limits<double>::quiet_NaN());
  ASSERT_EQ(answers.back()->judge(contract_of("f32")).kind, VerdictKind::fail);
  EXPECT_FALSE(engine::effective_precision(contract_of("f32"), answers));
}

// A kernel that is wrong in another way fits no precision.
TEST(EffectivePrecision, IsUnknownWhereNoPolicyFits) {
  for (const char* fault : {"fault:ln-tail"}) {
    const auto found = effective(fault, "f32", "f32");
    ASSERT_TRUE(found) << fault;
    EXPECT_TRUE(found->fits.empty()) << to_text(*found);
    EXPECT_NE(to_text(*found).find("effective unknown"), std::string::npos);
  }
}

// ---- two subjects ---------------------------------------------------------------------------------------------------

class Silent final : public engine::Observer {};

engine::Summary compared(const std::string& a, const std::string& b, engine::LawChoice::Compare laws, int cases) {
  engine::CampaignOptions options;
  options.verb = "compare";
  options.subject = a;
  options.subject_b = {b, {}, {}};
  options.op = &op;
  options.seed = 1;
  options.cases = cases;
  options.laws.compare = laws;
  const engine::Compared both = engine::compared(op, builtin_subject(a, ""), builtin_subject(b, ""), options.policy);
  Silent observer;
  return engine::run_campaign(*both.a, both.b.get(), options, observer);
}

TEST(LayerNormCompare, TwoConformingKernelsDifferWithinTheirBounds) {
  const engine::Summary summary =
      compared("builtin:ln-fused", "builtin:ln-explicit", engine::LawChoice::Compare::bound, 1000);
  EXPECT_TRUE(summary.findings.empty());
  EXPECT_GT(summary.executed, 500u);
}

TEST(LayerNormCompare, TellsWhichOfTheTwoIsWrong) {
  const engine::Summary summary =
      compared("builtin:ln-fused", "fault:ln-policy-ignored", engine::LawChoice::Compare::bound, 300);
  ASSERT_FALSE(summary.findings.empty());
  const auto& sides = summary.findings.front().entry.evidence->sides;
  ASSERT_EQ(sides.size(), 2u);
  EXPECT_FALSE(sides[0].outside);
  EXPECT_TRUE(sides[1].outside);
}

TEST(LayerNormCompare, EqualBitsAreAskedByName) {
  EXPECT_TRUE(compared("builtin:ln-fused", "builtin:ln-fused", engine::LawChoice::Compare::bits, 300).findings.empty());
  EXPECT_FALSE(
      compared("builtin:ln-fused", "builtin:ln-fused-welford", engine::LawChoice::Compare::bits, 300).findings.empty());
}

}  // namespace
}  // namespace attest
