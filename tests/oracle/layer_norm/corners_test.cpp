// Corners that chance rarely meets: conforming kernels which a bound that forgets them would blame.
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/layer_norm/emulated/emulator.hpp"
#include "oracle/layer_norm/oracle.hpp"

namespace attest::oracle::layer_norm {
namespace {

namespace emulated = attest::emulator::layer_norm;
using attest::layer_norm::make_out;
using attest::layer_norm::policy_from_text;
using attest::layer_norm::problem_from_text;

// A length that is infinite in f16: the quotient by it is 0, and so is the variance.
TEST(LayerNormCorners, ALengthThatF16CannotHold) {
  Contract contract = attest::layer_norm::contract_for(policy_from_text("f16-all"));
  contract.arithmetic.depth = attest::layer_norm::Pairwise{1};
  const Problem problem = problem_from_text(
      "rows=1 hidden=65536 dtype=f16 gamma=none beta=none values=alternating amplitude=0x1p-1 epsilon=0x1p-10");
  const Inputs inputs = materialise(problem);
  emulated::Scheme scheme;
  scheme.shape = emulated::Shape::halves;
  Tensor out = make_out(problem), none;
  emulated::run(inputs, contract, scheme, out, none);
  EXPECT_EQ(out.at(0, 0), 16);  // 0.5 / sqrt(0 + epsilon), far from 1
  const Verdict verdict = LayerNormOracle(contract, problem, inputs).judge(out, none);
  EXPECT_EQ(verdict.kind, VerdictKind::vacuous);
  EXPECT_EQ(verdict.reason, "undetermined");
}

// r gamma is subnormal and x - m large: what r gamma loses is multiplied by it.
TEST(LayerNormCorners, AScaledWeightThatIsSubnormal) {
  Contract contract = attest::layer_norm::contract_for(policy_from_text("f32"));
  contract.arithmetic.form = NormForm::weighted_scale;
  Problem problem = problem_from_text("rows=1 hidden=64 dtype=f32 gamma=one beta=none amplitude=0x1p+20 seed=3");
  const Inputs inputs = materialise(problem);
  Inputs small = inputs.clone();
  for (Index i = 0; i < problem.hidden; ++i) small.gamma.set(i, 0, 0, 0, 0x1.8p-125);
  Tensor out = make_out(problem), none;
  emulated::run(small, contract, emulated::Scheme{}, out, none);
  LayerNormOracle oracle(contract, problem, small);
  EXPECT_EQ(oracle.judge_slowly(out, none).kind, VerdictKind::pass);
  double off = 0;
  for (Index i = 0; i < problem.hidden; ++i) {
    const double y = oracle.interval(0, i).enclosure.y;
    off = std::max(off, std::fabs(out.at(0, i) - y) / std::fabs(y));
  }
  EXPECT_GT(off, 64 * unit_roundoff(Format::f32));  // or the corner is not met
}

// r gamma stays below the end of f16, and is past it once the affine format has rounded r up.
TEST(LayerNormCorners, AnInfinityOfARoundedRoot) {
  Contract contract = attest::layer_norm::contract_for(policy_from_text("f16,affine=f16"));
  contract.arithmetic.form = NormForm::weighted_scale;
  const Problem problem = problem_from_text("rows=1 hidden=4 dtype=f16 gamma=one beta=none epsilon=0x1p-40");
  Inputs inputs = materialise(problem).clone();
  const double row[] = {1.3984375, -1.3984375, 0.0625, -0.0625};
  for (Index i = 0; i < problem.hidden; ++i) {
    inputs.x.set(0, i, 0, 0, row[i]);
    inputs.gamma.set(i, 0, 0, 0, 64832);
  }
  Tensor out = make_out(problem), none;
  emulated::run(inputs, contract, emulated::Scheme{}, out, none);
  LayerNormOracle oracle(contract, problem, inputs);
  EXPECT_EQ(out.at(0, 2), infinity);  // or the corner is not met
  EXPECT_LT(oracle.interval(0, 2).enclosure.hi, 5000);
  EXPECT_NE(oracle.judge(out, none).kind, VerdictKind::fail);
  EXPECT_NE(oracle.judge_slowly(out, none).kind, VerdictKind::fail);
}

// Where the variance overflows beta is left: as the affine stage rounds it, which may be wider than promised.
TEST(LayerNormCorners, BetaOfAWiderStage) {
  const Contract contract = attest::layer_norm::contract_for(policy_from_text("*=bf16,storage=f32,output=f32"));
  const Problem problem =
      problem_from_text("rows=1 hidden=2 dtype=f32 gamma=none values=huge seed=0 edits=x[0,0]:0x0p+0");
  const Inputs inputs = materialise(problem);
  LayerNormOracle oracle(contract, problem, inputs);
  const layer_norm::Interval interval = oracle.interval(0, 0);
  ASSERT_TRUE(interval.beta_ok);
  const double beta = inputs.beta.at(0), stored = round_to(Format::bf16, beta);
  ASSERT_NE(beta, stored);
  const Rounding round{Format::f32, Format::f32, false};
  for (const double left : {beta, stored, round_to(Format::tf32, beta)})
    EXPECT_TRUE(interval.is_beta(left, round)) << left;
  // Narrower than promised, or none of beta's: nothing that a stage would leave.
  EXPECT_FALSE(interval.is_beta(stored + 2 * (stored - beta), round));
  EXPECT_FALSE(interval.is_beta(2 * beta, round));
}

// A constant subnormal row under flush-to-zero leaves the range of its own numbers: the mean becomes 0.
TEST(LayerNormCorners, AFlushedMeanOutsideTheRow) {
  Contract contract = attest::layer_norm::contract_for(policy_from_text("f32"));
  contract.arithmetic.variance = Variance::welford;
  contract.arithmetic.flush_to_zero = attest::layer_norm::FlushToZero::results;
  const Problem problem = problem_from_text(
      "rows=1 hidden=8 dtype=f32 gamma=huge beta=none values=constant amplitude=0x1p-130 offset=1 epsilon=0x1p-60");
  const Inputs inputs = materialise(problem);
  emulated::Scheme scheme;
  scheme.flush_results = true;
  Tensor out = make_out(problem), none;
  emulated::run(inputs, contract, scheme, out, none);
  EXPECT_NE(LayerNormOracle(contract, problem, inputs).judge_slowly(out, none).kind, VerdictKind::fail);
}

// 4,096 additions in bf16, each rounded up: their sum is 2^38 of its terms where it should be 2^12.
TEST(LayerNormCorners, ASumThatGrowsByRoundingAlone) {
  Contract contract = attest::layer_norm::contract_for(policy_from_text("bf16-all"));
  contract.arithmetic.kappa = 3;
  const Problem problem = problem_from_text(
      "rows=1 hidden=4096 dtype=bf16 gamma=none beta=none values=constant amplitude=0x1p-60 offset=1 epsilon=0x1p-20");
  const Inputs inputs = materialise(problem);
  emulated::Scheme scheme;
  scheme.sums = emulated::Direction::up;
  Tensor out = make_out(problem), none;
  emulated::run(inputs, contract, scheme, out, none);
  ASSERT_LT(out.at(0, 0), -0x1p25 * inputs.x.at(0, 0) * 0x1p10);  // the mean is 2^26 x, the root 2^10
  LayerNormOracle oracle(contract, problem, inputs);
  EXPECT_FALSE(oracle.interval(0, 0).enclosure.undetermined);
  EXPECT_NE(oracle.judge_slowly(out, none).kind, VerdictKind::fail);
  EXPECT_NE(oracle.judge(out, none).kind, VerdictKind::fail);
}

// Rows whose mean is exact add nothing for the reference, which gamma would multiply: t is nearly 0, and no result
// infinite.
TEST(LayerNormCorners, AnExactMeanBesideAHugeGamma) {
  const Contract contract = attest::layer_norm::contract_for(policy_from_text("f16"));
  const Problem problem = problem_from_text(
      "rows=1 hidden=3 dtype=f16 gamma=one beta=none param_type=f32 "
      "edits=x[0,0]:0x0p+0;x[0,1]:0x1.4p+2;x[0,2]:-0x1.4p+2;gamma[0,0]:0x1p+127");
  const Inputs inputs = materialise(problem);
  LayerNormOracle oracle(contract, problem, inputs);
  const layer_norm::Interval interval = oracle.interval(0, 0);
  EXPECT_FALSE(interval.enclosure.nonfinite_ok);
  EXPECT_GT(interval.enclosure.lo, -1);
  EXPECT_LT(interval.enclosure.hi, 1);
}

// Squares past the range of f64: permitted are beta, NaN, or the result of a kernel that scales the row first, and
// nothing else.
TEST(LayerNormCorners, SquaresPastTheRangeOfDouble) {
  const Contract contract = attest::layer_norm::contract_for(policy_from_text("f64"));
  const Problem problem =
      problem_from_text("rows=1 hidden=2 dtype=f64 gamma=none beta=none edits=x[0,0]:0x1p+700;x[0,1]:-0x1p+700");
  const Inputs inputs = materialise(problem);
  LayerNormOracle oracle(contract, problem, inputs);
  Tensor out = make_out(problem), none;
  const auto verdict_of = [&](double first, double second) {
    out.set(0, 0, 0, 0, first);
    out.set(0, 1, 0, 0, second);
    EXPECT_EQ(oracle.judge(out, none).kind, oracle.judge_slowly(out, none).kind);
    return oracle.judge(out, none).kind;
  };
  EXPECT_EQ(verdict_of(1, -1), VerdictKind::pass);
  EXPECT_EQ(verdict_of(0, -1), VerdictKind::pass);
  EXPECT_EQ(verdict_of(std::nan(""), infinity), VerdictKind::vacuous);
  EXPECT_EQ(verdict_of(0.5, 0), VerdictKind::fail);
  EXPECT_EQ(verdict_of(-1, 1), VerdictKind::fail);
}

// Two numbers near the largest of f64: their sum is an infinity or exact, and no number in between.
TEST(LayerNormCorners, ASumThatIsInfiniteOrExact) {
  const Contract contract = attest::layer_norm::contract_for(policy_from_text("f64"));
  const Problem problem = problem_from_text(
      "rows=1 hidden=2 dtype=f64 gamma=none beta=none "
      "edits=x[0,0]:0x1.fffffffffffffp+1023;x[0,1]:0x1.fffffffffffffp+1023");
  const Inputs inputs = materialise(problem);
  LayerNormOracle oracle(contract, problem, inputs);
  const layer_norm::Interval interval = oracle.interval(0, 0);
  EXPECT_TRUE(interval.enclosure.nonfinite_ok);
  EXPECT_FALSE(interval.enclosure.undetermined);
  EXPECT_LT(interval.enclosure.hi, 1e-300);
  EXPECT_GT(interval.enclosure.lo, -1e-300);
}

}  // namespace
}  // namespace attest::oracle::layer_norm
