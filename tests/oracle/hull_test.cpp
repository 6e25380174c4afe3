// The widened hull holds what the enclosure holds, and every finite output of conforming kernels, judged or not.
#include <cmath>

#include <gtest/gtest.h>

#include "kernels/emulated/contracts.hpp"
#include "kernels/emulated/emulator.hpp"
#include "oracle/outcome.hpp"
#include "tests/oracle/draw.hpp"

namespace attest {
namespace {

class Hull : public ::testing::TestWithParam<std::size_t> {};

TEST_P(Hull, HoldsEveryFiniteOutput) {
  const NamedPolicy& named = named_policies()[GetParam()];
  const Format dtype = named.policy[Stage::storage];
  std::int64_t elements = 0, unjudged = 0;
  for (int n = 0; n < 900; ++n) {
    const auto seed = static_cast<std::uint64_t>(n) * 37 + GetParam();
    Contract contract = emulator::draw_any_contract(named.policy, n % emulator::all_variants);
    if (n % 2) contract.empty_row = EmptyRow::zero;
    Problem problem = testing::draw_problem(dtype, seed ^ 0x4a11);
    // Scores so large that the exponent of 2^x is far off, in the narrow formats at least.
    if (n % 3 == 0) problem.scale = problem.effective_scale() * (n % 2 ? 256 : 2048);
    const Inputs inputs = materialise(problem);
    Tensor out = make_out(problem), lse = make_lse(problem);
    emulator::run(inputs, contract, emulator::draw_variant(contract, problem, seed), out, lse);
    oracle::AttentionOracle oracle(contract, problem, inputs);
    const oracle::Rounding round{contract.policy[Stage::output], dtype, contract.arithmetic.flush_to_zero};
    for (Index b = 0; b < problem.b; ++b)
      for (Index h = 0; h < problem.hq; ++h)
        for (Index i = 0; i < problem.lq; ++i)
          for (Index c = 0; c < problem.dv; ++c) {
            const oracle::Enclosure wide = oracle.hull_enclosure(b, h, i, c), judged = oracle.out_enclosure(b, h, i, c);
            if (wide.undetermined) continue;
            ++elements;
            // A shift that may be wrong, or a 16-bit exp, lets the enclosure take more of weights than it takes of
            // their mean.
            const Arithmetic& how = contract.arithmetic;
            const bool alike = !how.exp2 && how.merge_weights == MergeWeights::normalised &&
                               precision(contract.policy[Stage::softmax]) >= precision(Format::f32);
            if (alike && !judged.undetermined && std::isfinite(judged.lo) && std::isfinite(judged.hi)) {
              // The slack is the rounding of the reference, which the hull has no part in.
              const double slack = 0x1p-45 * (std::fabs(judged.lo) + std::fabs(judged.hi));
              ASSERT_LE(wide.lo, judged.lo + slack) << to_text(problem);
              ASSERT_GE(wide.hi, judged.hi - slack) << to_text(problem);
            }
            const double got = out.at(b, h, i, c);
            if (!std::isfinite(got)) continue;
            unjudged += judged.undetermined;
            ASSERT_NE(judge_element(wide, round, got), oracle::Outcome::outside)
                << got << " not in " << wide.lo << " .. " << wide.hi << ": " << to_text(problem);
          }
  }
  EXPECT_GE(elements, 10'000);
  if (named.policy[Stage::softmax] == Format::f16) {
    EXPECT_GE(unjudged, 20);
  }
}

// With scores of -10^19 a fused multiply-add makes 2^-1000 of the maximum's own weight, even in f64: the products with
// v are then subnormal, and the mean of equal values is not that value.
TEST(HullOfARow, IsNotAskedWhereWeightsMayLoseEveryBit) {
  constexpr double log2_e = 0x1.71547652b82fep0;
  double score = -1e19, exponent = 0;
  for (; !(exponent < -1000 && exponent > -1020); score -= 4096) exponent = std::fma(score, log2_e, -(score * log2_e));
  score += 4096;
  const double weight = std::exp2(exponent);
  const auto mean = [&](double v) { return (weight * v + weight * v) / (weight + weight); };
  double v = 1e-15;
  while (!(mean(v) > v * (1 + 1e-10))) v *= 1.0009765625;
  const double got = mean(v);
  Problem problem = problem_from_text("lq=1 lk=2 d=1 dv=1 dtype=f64 bias=zero values=constant:1 q_form=zero");
  for (Index j = 0; j < 2; ++j) {
    problem.edits.push_back({Edit::Tensor::bias, {0, 0, 0, j}, score});
    problem.edits.push_back({Edit::Tensor::v, {0, 0, j, 0}, v});
  }
  Contract contract = contract_for(policy_from_text("f64"));
  contract.empty_row = EmptyRow::zero;
  const Inputs inputs = materialise(problem);
  oracle::AttentionOracle oracle(contract, problem, inputs);
  const oracle::Enclosure wide = oracle.hull_enclosure(0, 0, 0, 0);
  EXPECT_NE(judge_element(wide, {Format::f64, Format::f64, false}, got), oracle::Outcome::outside);
}

INSTANTIATE_TEST_SUITE_P(AllPolicies, Hull, ::testing::Range<std::size_t>(0, 9));

// Scores at the end of the range of double make arguments of merges infinite, and none is merged: the hull is widened
// by the division's error all the same.
TEST(HullOfARow, IsWidenedNextToTheEndOfTheRange) {
  const Problem problem = problem_from_text(
      "op=attention b=1 hq=1 hkv=1 lq=1 lk=2 d=1 dv=1 dtype=f64 bias=lowest values=constant:1 q_form=zero k_form=zero "
      "seed=2563710511");
  const Contract contract = contract_from_text(
      R"({"empty_row":"mean_v","exp2":false,"div_ulp":1,"lse_merge":"chain","merge_weights":"lse","splits_max":1})",
      policy_from_text("f64"));
  const Inputs inputs = materialise(problem);
  oracle::AttentionOracle oracle(contract, problem, inputs);
  const oracle::Enclosure wide = oracle.hull_enclosure(0, 0, 0, 0);
  const oracle::Rounding round{Format::f64, Format::f64, false};
  EXPECT_FALSE(wide.undetermined);
  EXPECT_NE(judge_element(wide, round, 1 - 0x1p-53), oracle::Outcome::outside);
  EXPECT_EQ(judge_element(wide, round, 1 - 0x1p-40), oracle::Outcome::outside);
}

}  // namespace
}  // namespace attest
