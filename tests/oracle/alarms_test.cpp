// Conforming kernels that the statistical tiers once blamed, each with what they must still tell.
#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "kernels/registry.hpp"
#include "oracle/attention.hpp"
#include "oracle/calibration.hpp"
#include "tests/oracle/result.hpp"

namespace attest {
namespace {

using testing::Result;

constexpr double warn = 4;

const kernels::KernelEntry& builtin(std::string_view name) {
  return *kernels::find_kernel(kernels::builtin_kernels(), name);
}

// What tier three says of a conforming kernel of attest's own.
struct Told {
  oracle::Statistics statistics;
  Result::Aggregate aggregate;

  Told(const Problem& problem, const char* policy, std::string_view kernel) {
    const Result result(problem, policy_from_text(policy), builtin(kernel));
    EXPECT_EQ(result.judge(&statistics).kind, VerdictKind::pass);
    aggregate = result.aggregate(statistics);
  }
};

// A key of score 0 beside 127 that a softcap holds near -15.8: their weights are two of the smallest steps of f16 and a bit, and round down
// together, by a tenth.
TEST(Alarms, WeightsAmongSubnormalsRoundAlike) {
  const Problem problem = problem_from_text(
      "op=attention b=2 hq=1 hkv=1 lq=32 lk=128 d=64 dv=64 dtype=f16 softcap=16 values=offset:2 q_form=power_of_two "
      "k_form=short_significand v_form=one null_key=1 seed=0");
  const Result result(problem, policy_from_text("f16"), builtin("explicit"));
  oracle::AttentionOracle oracle(result.contract, problem, result.inputs);
  const double got = result.out.at(0, 0, 18, 0);
  ASSERT_GT(std::fabs(got - oracle.out_enclosure(0, 0, 18, 0).y), 0.1 * got);
  EXPECT_LT(result.largest().lambda, warn);
  // Weights that lose half of themselves are another matter.
  EXPECT_GT(oracle.lambda_needed(0, 0, 18, 0, Format::f16, 0.5 * got), warn);
}

// A single row, whose scores are plain sums of 217 products, as large as s takes them to be: T is that of some 17 errors.
TEST(Alarms, FewErrorsMayComeToMoreThanS) {
  const Problem problem = problem_from_text(
      "op=attention b=1 hq=1 hkv=1 lq=1 lk=256 d=256 dv=256 dtype=f32 values=peaked:1 seed=2379264681");
  Told told(problem, "f32", "explicit");
  oracle::Statistics& statistics = told.statistics;
  const double limit = told.aggregate.class_limit;
  EXPECT_GT(statistics.t(), limit);
  EXPECT_GT(statistics.errors, oracle::least_weights);
  EXPECT_LT(statistics.t(), oracle::largest_t(limit, statistics));
  const auto times = [&](double more) {
    oracle::Statistics of = statistics;
    of.squares *= more * more;
    return of.t() / oracle::largest_t(limit, of);
  };
  EXPECT_GT(times(4), 1.5);
  statistics.elements = 100'000;
  statistics.errors = 1e5;
  EXPECT_LT(oracle::largest_t(limit, statistics), 1.02);
  EXPECT_EQ(oracle::largest_t(2, statistics), 2);
}

// What a quick level tells of an element that it found near, an upper bound, is no warning.
TEST(Alarms, NearElementsWarnOfNothing) {
  const Problem problem = problem_from_text(
      "op=attention b=1 hq=4 hkv=1 lq=1 lk=128 d=96 dv=96 dtype=f32 lse=f32 values=offset:1 null_key=1 seed=480619962");
  const Result result(problem, policy_from_text("f32"), builtin("fused"));
  oracle::Statistics statistics;
  ASSERT_EQ(result.judge(&statistics).kind, VerdictKind::pass);
  EXPECT_LT(result.largest().lambda, 1);
  EXPECT_GT(statistics.largest_lambda, warn * (1 - 1e-3));
  EXPECT_LE(statistics.largest_lambda, warn);
}

// Scores that a softcap holds at its end: weights of 1/15 in every row, which bf16 rounds alike for all elements.
TEST(Alarms, WeightsThatRoundAlikeAreOneError) {
  const Problem problem = problem_from_text(
      "op=attention b=7 hq=8 hkv=1 lq=1 lk=15 d=64 dv=64 dtype=bf16 softcap=0x1.cf8p-3 bias=minus_inf bias_axes=0 "
      "bias_type=f32 lse=f32 values=offset:1 seed=3479467474");
  const auto [statistics, aggregate] = Told(problem, "bf16", "explicit-lse");
  EXPECT_GT(aggregate.t, aggregate.class_limit);
  EXPECT_GT(statistics.alike, 0.9 * static_cast<double>(statistics.elements));
  EXPECT_LT(aggregate.t, aggregate.limit);
  EXPECT_LT(aggregate.limit, 2.5);
  // Of weights that differ nothing is alike.
  Problem other = problem;
  other.softcap = 0;
  EXPECT_EQ(Told(other, "bf16", "explicit-lse").statistics.alike, 0);
}

// Queries of ones share the scores of each key, whichever of them a mask leaves: eight rows of few weights.
TEST(Alarms, RowsOfOneQueryShareTheErrorsOfScores) {
  Problem problem = problem_from_text(
      "op=attention b=1 hq=8 hkv=1 lq=32 lk=32 d=128 dv=128 dtype=f32 causal=1 lengths=ragged lse=f32 values=levels:16 "
      "q_form=one seed=1364150308 rows=186");
  EXPECT_EQ(Told(problem, "f32", "fused-lazy").statistics.elements, 0);
  problem.q_form = Form::drawn;
  EXPECT_GT(Told(problem, "f32", "fused-lazy").statistics.elements, 10'000);
}

// 64 queries of one number each, all the same: a quarter of the weights lies halfway between two numbers of f16, and of 256 elements 4 differ.
TEST(Alarms, RowsThatAreTheSameCountOnce) {
  const Problem problem = problem_from_text(
      "op=attention b=1 hq=1 hkv=1 lq=64 lk=64 d=1 dv=4 dtype=f16 values=rising:0x1p-8 seed=3568774875");
  const Told same(problem, "f16", "fused-lazy");
  EXPECT_GT(same.aggregate.t, 1.6);
  EXPECT_LT(same.aggregate.t, same.aggregate.limit);
  EXPECT_EQ(same.statistics.errors, 4);
  // So are the three weights of every row where a softcap holds all scores at its end.
  Problem capped = problem_from_text(
      "op=attention b=4 hq=16 hkv=2 lq=1 lk=2 d=64 dv=64 dtype=bf16 softcap=1 q_layout=broadcast_rows "
      "values=negative:8 v_form=power_of_two null_key=1 seed=2439332951");
  const Told at_end(capped, "bf16", "fused");
  EXPECT_GT(at_end.aggregate.t, 1.5);
  EXPECT_LT(at_end.aggregate.t, at_end.aggregate.limit);
  EXPECT_EQ(at_end.statistics.errors, 1);
  capped.softcap = 0;
  capped.amplitude = 1;
  EXPECT_EQ(Told(capped, "bf16", "fused").statistics.errors, 64);
}

// A softcap holds 1,025 rows of five keys so near its ends that their weights differ by millionths, and round alike.
TEST(Alarms, RowsWithinARoundingOfEachOtherCountOnce) {
  const Problem problem = problem_from_text(
      "op=attention b=1 hq=1 hkv=1 lq=1025 lk=5 d=2 dv=7 dtype=f16 softcap=1 bias=normal bias_axes=8 bias_type=f64 "
      "values=negative:2 seed=3211292998");
  const auto [statistics, aggregate] = Told(problem, "f16", "explicit");
  EXPECT_GT(aggregate.t, aggregate.class_limit);
  EXPECT_LT(statistics.errors, 2);
  EXPECT_LT(aggregate.t, aggregate.limit);
  // Rows whose weights vary by little, but by more than a rounding, are rows of their own: so says T of bf16, whose rounding is coarse.
  for (const char* scale : {"0x1p-8", "0x1p-6", "0x1p-3"}) {
    const Problem flat =
        problem_from_text(std::string("op=attention b=1 hq=1 hkv=1 lq=128 lk=512 d=64 dv=16 dtype=bf16 scale=") +
                          scale + " values=normal:1 seed=5");
    const oracle::Statistics own = Told(flat, "bf16", "explicit").statistics;
    EXPECT_GT(own.own_row_errors, 0.9 * own.row_errors) << scale;
  }
}

// Of two weights that differ one error is independent: that of the difference of their scores.
TEST(Alarms, ErrorsOfPeakedRowsAreFewerThanTheirWeights) {
  const Problem problem = problem_from_text(
      "op=attention b=1 hq=4 hkv=1 lq=16 lk=16 d=128 dv=128 dtype=f32 lse=f64 values=peaked:1 q_form=power_of_two "
      "seed=3119853727");
  const Told told(problem, "f32", "fused-split");
  EXPECT_GT(told.aggregate.t, 1.3);
  EXPECT_LT(told.aggregate.t, told.aggregate.limit);
  EXPECT_GE(told.statistics.errors, 64);
  EXPECT_LT(told.statistics.errors, 100);
}

// A bias of -10^4 for every key leaves scores on a grid of 2^-10 in f32, two ulps of the weights in f16: they round the same way by the dozen.
TEST(Alarms, WeightsOnAGridRoundAlike) {
  const auto of = [](const char* bias) {
    return problem_from_text(std::string("op=attention b=1 hq=1 hkv=1 lq=2 lk=127 d=64 dv=64 dtype=f16 values=flat:1 "
                                         "seed=4215177493") +
                             bias);
  };
  const Policy policy = policy_from_text("f16");
  const Result large(of(" bias=minus_1e4 bias_axes=5"), policy, builtin("explicit"));
  oracle::AttentionOracle with_bias(large.contract, large.problem, large.inputs);
  const double y = with_bias.out_enclosure(0, 0, 0, 0).y, got = large.out.at(0, 0, 0, 0);
  ASSERT_GT(got - y, 2e-4 * y);
  EXPECT_LT(large.largest().lambda, 2);
  // Of small scores, and of more than all of them would come to, it is still told.
  const Result small(of(""), policy, builtin("explicit"));
  oracle::AttentionOracle without(small.contract, small.problem, small.inputs);
  EXPECT_GT(without.lambda_needed(0, 0, 0, 0, Format::f32, without.out_enclosure(0, 0, 0, 0).y + (got - y)), 4);
  EXPECT_GT(with_bias.lambda_needed(0, 0, 0, 0, Format::f32, y + 12 * (got - y)), 5);
}

}  // namespace
}  // namespace attest
