#include <gtest/gtest.h>

#include <cmath>

#include "core/error.hpp"
#include "tests/kernels/support.hpp"

namespace attest::kernels::test {
namespace {

// Scores reach some thousands here (bias up to 2048, large channels), and float64 keeps 1e-12 of them.
constexpr double float64_noise = 1e-9;

TEST(Explicit, MatchesTheNaiveLoopsInFloat64OnEveryOption) {
  const KernelEntry& kernel = builtin("explicit");
  for (std::uint64_t seed = 0; seed < 600; ++seed) {
    const Problem problem = random_problem(seed, Format::f64);
    Contract contract = kernel.contract(Policy(Format::f64));
    contract.softcap_before_bias = seed % 2 == 0;
    const Result got = run(kernel, problem, contract), expected = naive(problem, contract);
    ASSERT_TRUE(got.intact) << to_text(problem);
    ASSERT_LE(distance(got.out, expected.out), float64_noise) << to_text(problem);
    ASSERT_LE(distance(got.lse, expected.lse), problem.lse == LseOutput::f32 ? 1e-7 : float64_noise)
        << to_text(problem);
  }
}

TEST(Explicit, TheComparisonSeesAWrongScale) {
  Problem problem = problem_from_text("lk=5 d=4 dv=2 dtype=f64");
  const Contract contract = builtin("explicit").contract(Policy(Format::f64));
  const Result got = run(builtin("explicit"), problem, contract);
  problem.scale = 0.51;  // 1/sqrt(d) is 0.5
  EXPECT_GT(distance(got.out, naive(problem, contract).out), 1e-4);
}

TEST(Explicit, EmptyRowsFollowTheContract) {
  const Problem problem =
      problem_from_text("b=2 lq=3 lk=5 d=2 dv=3 dtype=f64 keep=some_empty lengths=ragged lse=f64 seed=3");
  for (const EmptyRow rule : {EmptyRow::zero, EmptyRow::nan, EmptyRow::mean_v, EmptyRow::mean_all}) {
    for (const char* name : {"explicit", "fused"}) {
      Contract contract = builtin(name).contract(Policy(Format::f64));
      contract.empty_row = rule;
      const Result got = run(builtin(name), problem, contract), expected = naive(problem, contract);
      EXPECT_LE(distance(got.out, expected.out), float64_noise) << name << static_cast<int>(rule);
      EXPECT_LE(distance(got.lse, expected.lse), float64_noise);
    }
  }
}

// A stage's rounding is real: on problems of this size some bit changes whenever one stage gets coarser.
TEST(Explicit, EveryStageRounds) {
  const Problem problem = problem_from_text("lq=4 lk=40 d=24 dv=24 softcap=5 bias=normal seed=11");
  const Result reference = run(builtin("explicit"), problem, Policy(Format::f32));
  for (std::size_t s = 1; s < stage_count; ++s) {
    const auto stage = static_cast<Stage>(s);
    if (stage == Stage::partial) continue;  // split-KV only
    for (const Format format : {Format::f16, Format::bf16, Format::tf32}) {
      const Result coarse = run(builtin("explicit"), problem, Policy(Format::f32).set(stage, format));
      EXPECT_FALSE(same(coarse, reference)) << name(stage) << ' ' << name(format);
      EXPECT_LT(distance(coarse.out, reference.out), 0.1) << name(stage) << ' ' << name(format);
    }
  }
  EXPECT_FALSE(same(run(builtin("fused-split"), problem, Policy(Format::f32).set(Stage::partial, Format::bf16)),
                    run(builtin("fused-split"), problem, Policy(Format::f32))));
}

TEST(Explicit, RefusesATypeThatThePolicyDoesNotStore) {
  const Problem problem = problem_from_text("dtype=f16");
  for (const KernelEntry& kernel : builtin_kernels()) EXPECT_THROW(run(kernel, problem, Policy(Format::f32)), Error);
}

}  // namespace
}  // namespace attest::kernels::test
