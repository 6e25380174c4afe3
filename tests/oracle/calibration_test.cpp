// Calibration data: what is read back is what was written, thresholds come from it, and damage has a sentence.
#include "oracle/calibration.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "core/json_text.hpp"

namespace attest::oracle {
namespace {

Calibration sample() {
  Calibration calibration;
  calibration.seed = 7;
  PolicyCalibration& f16 = calibration.policies["f16"];
  f16.share = 0.2;
  f16.classes["normal"] = {40, 1000, 50'000, 4.5, 900, 0.3, 0.7, 0.8, 0.9, 1.0, "lk=3"};
  f16.classes["flat"] = {40, 99, 5'000, 2, 900, 0.3, 0.7, 0.8, 0.9, 1.0, ""};
  return calibration;
}

Problem problem_of(const std::string& fields) {
  return problem_from_text("b=4 hq=8 hkv=8 lk=4 dv=8 dtype=f16 " + fields);
}
const Policy f16 = policy_from_text("f16");

TEST(Calibration, IsReadBackAsItWasWritten) {
  EXPECT_EQ(calibration_from_text(json_text(to_json(sample())), "x"), sample());
  EXPECT_EQ(calibration_from_text(to_file_text(sample()), "x"), sample());
  EXPECT_EQ(calibration_from_text(to_file_text({}), "x"), Calibration());
  Calibration interrupted = sample();
  interrupted.interrupted = true;
  EXPECT_EQ(calibration_from_text(json_text(to_json(interrupted)), "x"), interrupted);
  EXPECT_EQ(calibration_from_text(to_file_text(interrupted), "x"), interrupted);
  EXPECT_FALSE(shipped_calibration().policies.empty());
}

TEST(Calibration, GivesThresholds) {
  const Calibration calibration = sample();
  const Thresholds normal = calibration.thresholds(f16, problem_of("values=normal:1"));
  ASSERT_TRUE(normal.t);
  EXPECT_DOUBLE_EQ(*normal.t, 1.3);
  CalibrationCell exact;
  exact.results = 100;
  EXPECT_DOUBLE_EQ(largest_t(exact).value(), 1);  // exact results are no rule
  EXPECT_DOUBLE_EQ(normal.warn, 1.2 * 4.5);       // above what was seen
  EXPECT_DOUBLE_EQ(normal.fail, 1.2 * 4.5);
  EXPECT_DOUBLE_EQ(normal.share, 0.4);
  const Thresholds few = calibration.thresholds(f16, problem_of("values=flat:1"));
  EXPECT_FALSE(few.t);  // too few results to say how large T may be
  EXPECT_EQ(few.warn, 4);
  EXPECT_EQ(few.fail, 5);
  EXPECT_EQ(calibration.thresholds(f16, problem_of("values=wide:1")).cell, nullptr);
  EXPECT_EQ(calibration.thresholds(policy_from_text("f16,softmax=f16,pv=f16"), problem_of("")).cell, nullptr);
}

TEST(Calibration, WithoutAClassTheLargestLambdaOfThePolicyCounts) {
  Calibration calibration = sample();
  CalibrationCell& flat = calibration.policies["f16"].classes["flat"];
  flat.lambda = 6;
  const Thresholds any = calibration.thresholds_of_any_class(f16);
  EXPECT_DOUBLE_EQ(any.warn, 1.2 * 6);
  EXPECT_DOUBLE_EQ(any.fail, 1.2 * 6);
  EXPECT_EQ(any.cell, &flat);
  EXPECT_FALSE(any.t);
  for (const char* policy : {"f32", "f16,softmax=f16,pv=f16"}) {
    const Thresholds none = calibration.thresholds_of_any_class(policy_from_text(policy));
    EXPECT_EQ(none.cell, nullptr);
    EXPECT_EQ(none.warn, 4);
    EXPECT_EQ(none.fail, 5);
  }
}

TEST(Calibration, EveryNamedPolicyIsCalibratedWhereMostProblemsAre) {
  for (const NamedPolicy& named : named_policies()) {
    Problem problem = problem_of("values=normal:1");
    problem.dtype = named.policy[Stage::storage];
    const Thresholds thresholds = shipped_calibration().thresholds(named.policy, problem);
    ASSERT_TRUE(thresholds.t) << named.name;
    EXPECT_LT(*thresholds.t, 3) << named.name;
    // One kernel of fifty is off by all of its poor division, always the same way: in 24 to 32 % of its results it stays above
    // its class where nothing coarser comes after that division. The next one does in 5 %.
    EXPECT_LT(thresholds.share, 0.65) << named.name;
    EXPECT_LE(thresholds.fail, 5) << named.name;
  }
}

TEST(Calibration, ClassesFollowValuesAndRows) {
  EXPECT_EQ(calibration_class(problem_of("values=normal:1")), "normal");
  EXPECT_EQ(calibration_class(problem_of("values=flat:1 rows=31")), "flat+rows4");
  EXPECT_EQ(calibration_class(problem_from_text("lq=3 values=tiny:1")), "tiny+rows1");
}

// Of equal values every element of a row is the same number: `explicit` had T 1.96 where 1.29 was permitted, in bf16 of 1/30 each, and
// with a null key T up to 1.8 in one of some thousand.
TEST(Calibration, EqualValuesAreAlike) {
  EXPECT_TRUE(outputs_alike(problem_of("lq=4 values=constant:0.625 keep=dense")));
  EXPECT_FALSE(outputs_alike_by_form(problem_of("lq=4 values=constant:0.625 keep=dense bias=normal")));
  EXPECT_FALSE(outputs_alike(problem_of("lq=4 values=normal:0.625 keep=dense")));
}

TEST(Calibration, RowsWithTheSameWeightsCountOnce) {
  EXPECT_EQ(distinct_rows(problem_of("lq=2")), 64);
  EXPECT_EQ(distinct_rows(problem_of("lq=2 q_layout=broadcast_heads")), 64);  // each head has its keys
  EXPECT_EQ(distinct_rows(problem_of("lq=2 q_layout=broadcast_heads k_layout=broadcast_heads")), 8);
  EXPECT_EQ(distinct_rows(problem_of("lq=2 k_layout=broadcast_rows bias=normal bias_axes=12")), 2);
  EXPECT_EQ(distinct_rows(problem_of("lq=2 k_form=one bias=normal bias_axes=9 lengths=ragged")), 4);
  EXPECT_EQ(distinct_rows(problem_of("lq=2 rows=5")), 5);
}

// `fused-lazy` had T 1.65 in f32 where 1.29 was permitted: 32 queries of ones share the scores of each key, and a mask chooses among them.
TEST(Calibration, MasksMakeNoErrorsOfTheirOwn) {
  EXPECT_EQ(distinct_rows(problem_of("lq=4 q_form=one causal=1")), 32);
  EXPECT_EQ(distinct_rows(problem_of("lq=4 q_form=one k_layout=broadcast_batch causal=1 lengths=ragged")), 8);
  EXPECT_EQ(distinct_rows(problem_of("lq=4 k_form=one bias=normal bias_axes=8 keep=dense window_left=1")), 1);
  EXPECT_EQ(distinct_rows(problem_of("lq=4 q_form=zero bias=alibi")), 8);                 // of each head its distances
  EXPECT_EQ(distinct_rows(problem_of("lq=4 q_form=one bias=padding bias_axes=14")), 32);  // as a mask
  EXPECT_EQ(distinct_rows(problem_of("lq=4 q_form=one bias=normal bias_axes=14")), 128);
  EXPECT_EQ(distinct_rows(problem_of("lq=4 q_form=one bias=normal bias_axes=6")), 32);  // no weight knows of it
  EXPECT_EQ(distinct_rows(problem_of("lq=4 causal=1")), 128);
}

// Of subnormal numbers of f16 all weights are 1/4 there, and sixteen rows of a head have the same results, a quarter of them halfway
// between two numbers: `explicit` had T 1.15 where 1.09 is permitted.
TEST(Calibration, WeightsThatScoresCannotMoveAreAlike) {
  const auto of = [](const char* dtype, const char* values) {
    return problem_from_text(std::string("b=2 hq=8 hkv=1 lq=2 lk=4 d=32 dv=32 scale=0x1p-3 dtype=") + dtype +
                             " values=" + values);
  };
  EXPECT_TRUE(outputs_alike(of("f16", "uniform:0x1p-13")));
  EXPECT_EQ(distinct_rows(of("f16", "uniform:0x1p-13")), 1);
  EXPECT_FALSE(outputs_alike(of("f16", "uniform:0x1p-4")));
  EXPECT_FALSE(outputs_alike(of("f16", "uniform:0x1p-13 q_form=power_of_two")));  // which may be as large as 1
  EXPECT_FALSE(outputs_alike(of("f32", "uniform:0x1p-13")));  // scores of 2^-24 are no less than a rounding
  EXPECT_FALSE(outputs_alike(of("f16", "tiny_scores:1")));
  EXPECT_FALSE(outputs_alike(of("f16", "wide:1")));
}

TEST(Calibration, FewErrorsAreLeftOut) {
  const Problem many = problem_of("");
  EXPECT_FALSE(outputs_alike(many));
  const std::function<void(Problem&)> changes[] = {
      [](Problem& p) { p.dv = 3; },
      [](Problem& p) { p.scale = 0; },
      [](Problem& p) { p.q_form = Form::zero; },
      [](Problem& p) { p.v_form = Form::one; },
      [](Problem& p) { p.v_layout = Layout::broadcast_rows; },
      [](Problem& p) { p.rows = 15; },  // of 4 keys each
      [](Problem& p) { p.k_layout = Layout::broadcast_rows; },
      [](Problem& p) {  // a bias that all queries share
        p.k_form = Form::one;
        p.bias = Bias::normal;
        p.bias_axes = 8;
      },
      [](Problem& p) {
        p.q_layout = p.k_layout = Layout::broadcast_heads;  // 4 rows, of 4 keys each
      },
      [](Problem& p) {
        p.edits.push_back({Edit::Tensor::q, {0, 0, 0, 0}, 0});
      },
  };
  for (const auto& change : changes) {
    Problem few = many;
    change(few);
    EXPECT_TRUE(outputs_alike(few)) << to_text(few);
  }
  // What sets rows apart where keys do not.
  Problem apart = many;
  apart.k_layout = Layout::broadcast_rows;
  apart.bias = Bias::normal;
  EXPECT_FALSE(outputs_alike(apart));
}

TEST(Calibration, DamageHasASentence) {
  const auto sentence = [](const std::string& text) {
    try {
      calibration_from_text(text, "c.json");
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  nlohmann::ordered_json good = to_json(sample());
  for (const char* text : {"", "[]", "{", "{}", R"({"format": 2, "policies": {}})", R"({"format": 1})",
                           R"({"format": 1, "policies": {"f17": {}}})", R"({"format": 1, "policies": {"f16": 3}})",
                           R"({"format": 1, "policies": {"f16": {"classes": {}}}})",
                           R"({"format": 1, "policies": {"f16": {"share": 0, "classes": {"normal": []}}}})"})
    EXPECT_TRUE(sentence(text).starts_with("c.json")) << text << ": " << sentence(text);
  good["policies"]["f16"]["classes"]["normal"]["t"] = -1;
  EXPECT_NE(sentence(json_text(good)).find("f16, normal: t is negative"), std::string::npos)
      << sentence(json_text(good));
  good["policies"]["f16"]["classes"]["normal"].erase("t");
  EXPECT_NE(sentence(json_text(good)).find("has no number 't'"), std::string::npos) << sentence(json_text(good));
}

}  // namespace
}  // namespace attest::oracle
