// Tiers two and three measured: emulated kernels that keep their contract stay far inside, and faults of precision that
// the rigorous tier cannot see do not.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <string>
#include <string_view>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "core/field.hpp"
#include "core/rng.hpp"
#include "kernels/emulated/contracts.hpp"
#include "kernels/emulated/emulator.hpp"
#include "oracle/attention.hpp"
#include "oracle/calibration.hpp"
#include "tests/oracle/draw.hpp"
#include "tests/oracle/result.hpp"

namespace attest {
namespace {

using testing::Result;

constexpr double warn = 4;

// What judge() says of the statistical tiers is what the full formulas say: proven below near_lambda, equal above; and it
// changes no verdict.
void expect_same(const Result& result, const Result::Largest& full, const oracle::Statistics& quick,
                 const Verdict& verdict) {
  using oracle::Statistics;
  const Verdict plain = result.judge();
  EXPECT_EQ(plain.kind, verdict.kind);
  EXPECT_EQ(plain.counts.judged, verdict.counts.judged);
  if (verdict.kind == VerdictKind::fail) return;  // ends at the first element outside
  // Where the result is f64, the two levels' references differ by their own rounding.
  const double rounding = result.problem.dtype == Format::f64 ? 0.5 : 1e-6;
  EXPECT_GE(quick.largest_lambda, full.lambda * (1 - 1e-6) - rounding);
  if (full.lambda <= Statistics::near_lambda) {
    EXPECT_LE(quick.largest_lambda, Statistics::near_lambda);
  } else if (full.lambda <= Statistics::stop_lambda) {
    EXPECT_EQ(quick.largest_lambda, full.lambda);
  } else {
    EXPECT_GT(quick.largest_lambda, Statistics::stop_lambda);
  }
}

// Contracts of emulator::draw_contract of which the statistical tiers speak.
bool has_statistics(const Contract& contract) { return oracle::statistical_refusal(contract).empty(); }

std::string_view label(Values values) { return find_field("values")->labels[static_cast<std::size_t>(values)]; }

class Tiers : public ::testing::TestWithParam<std::size_t> {
 protected:
  const NamedPolicy& named = named_policies()[GetParam()];
};

// Every class of values under every contract, on short rows and on a few long ones.
TEST_P(Tiers, ConformingKernelsStayBelowTheWarning) {
  constexpr auto classes =
      static_cast<std::uint64_t>(Values::ends);  // those before it; it comes last, so that these keep their problems
  constexpr std::uint64_t before = 2310;
  std::map<std::string, double> by_class, t_by_class;
  Index elements = 0, in_t = 0;
  for (std::uint64_t n = 0; n < before + before / classes; ++n) {
    const std::uint64_t number = n * 9 + GetParam();
    const Contract contract =
        emulator::draw_contract(named.policy, static_cast<int>(n / classes % emulator::contract_variants));
    if (!has_statistics(contract)) continue;
    Problem problem = testing::draw_problem(named.policy[Stage::storage], number * 977, n % 40 == 0 ? 400 : 40);
    problem.values = n < before ? static_cast<Values>(n % classes) : Values::ends;
    if (n % 40 == 0) problem.b = problem.hq = problem.hkv = problem.lq = 1;
    const Result result(problem, contract, contract, emulator::draw_variant(contract, problem, number));
    const Result::Largest largest = result.largest();
    double& of_class = by_class[std::string(label(problem.values))];
    of_class = std::max(of_class, largest.lambda);
    elements += largest.elements;
    oracle::Statistics statistics;
    const Verdict verdict = result.judge(&statistics);
    expect_same(result, largest, statistics, verdict);
    in_t += statistics.elements;
    double& t_of_class = t_by_class[std::string(label(problem.values))];
    if (statistics.elements >= 48) t_of_class = std::max(t_of_class, statistics.t());
  }
  std::printf("%s: %ld elements, %ld of them in T; largest lambda and T by class of values:",
              std::string(named.name).c_str(), static_cast<long>(elements), static_cast<long>(in_t));
  for (const auto& [values, lambda] : by_class)
    std::printf(" %s %.2f %.2f", values.c_str(), lambda, t_by_class[values]);
  std::printf("\n");
  EXPECT_GE(elements, 40'000);
  EXPECT_GE(in_t, elements / 10);
  for (const auto& [values, lambda] : by_class) EXPECT_LE(lambda, warn) << values;
  // Where all values are equal, sums meet equal roundings, which T knows nothing of; nor does it know of what keys share through
  // a rounded q of which one element decides.
  for (const auto& [values, t] : t_by_class)
    EXPECT_LE(t, values == "constant" ? 6 : values == "unbalanced" ? 4 : 3) << values;
}

INSTANTIATE_TEST_SUITE_P(AllPolicies, Tiers, ::testing::Range<std::size_t>(0, 9));

// Roundings that are not independent: a row sum of equal weights stops growing once it is 2^p of them, and a partial
// result is rounded whole.
TEST(TiersOfNarrowSums, KnowOfEqualRoundings) {
  struct Case {
    const char *kernel, *policy, *problem;
  };
  for (const Case& c : {
           Case{"fused-tile1", "bf16-all",
                "lq=1 lk=3334 d=1 dv=1 dtype=bf16 scale=0x1.5743910df4795p-4 values=integers:2 k_form=one "
                "v_form=power_of_two seed=2478453253"},
           Case{"fused-tile1", "*=bf16,storage=f16",
                "lq=1 lk=2268 d=1 dv=1 dtype=f16 causal=1 align=bottom_right values=integers:0.34375 seed=3640343958"},
           Case{"fused-split", "f16,partial=bf16", "lq=1 lk=127 d=1 dv=1 dtype=f16 values=flat:1 seed=869812962"},
           Case{"fused-split-lse-weights", "f16,partial=bf16",
                "lq=4 lk=64 d=38 dv=38 dtype=f16 scale=0x1p-3 values=flat:1 seed=2797772815"},
       }) {
    const kernels::KernelEntry* kernel = kernels::find_kernel(kernels::builtin_kernels(), c.kernel);
    ASSERT_NE(kernel, nullptr) << c.kernel;
    const Result result(problem_from_text(c.problem), policy_from_text(c.policy), *kernel);
    const Result::Largest largest = result.largest();
    EXPECT_GT(largest.elements, 0) << c.problem;
    EXPECT_LE(largest.lambda, warn) << c.kernel << ' ' << c.problem;
  }
}

// How many elements of what kernels give on a problem in f16 T is asked of.
Index asked_of(const std::string& problem_text) {
  const Contract contract = contract_for(policy_from_text("f16"));
  const Problem problem = problem_from_text(problem_text);
  const Result result(problem, contract, contract, {});
  oracle::Statistics statistics;
  EXPECT_EQ(result.judge(&statistics).kind, VerdictKind::pass);
  return statistics.elements;
}

// Each row sees the lowest bias alone: 2^x rounds all their weights alike, by up to u_P, and T would be the error of one.
TEST(TiersOfOneMaximum, LeaveOutRowsThatShareTheirLargestWeight) {
  const std::string problem =
      "b=16 lq=4 lk=4 d=16 dv=16 dtype=f16 keep=sparse keep_axes=14 bias_axes=2 values=normal:0.015625 seed=189481252 ";
  EXPECT_EQ(asked_of(problem + "bias=empty_lowest"), 0);
  EXPECT_GT(asked_of(problem + "bias=normal"), 0);
}

// Two rows, of which each sees little but one key: the error of one score is that of 64 columns, and T was 1.58.
TEST(TiersOfFewWeights, LeaveOutResultsOfRowsThatSeeFewKeys) {
  const std::string problem = "hq=2 hkv=1 lq=1 lk=33 d=64 dv=64 dtype=f16 scale=0x1.cp-2 seed=161293743 ";
  EXPECT_EQ(asked_of(problem + "values=normal:3.25"), 0);
  EXPECT_EQ(asked_of(problem + "values=normal:0.03125"), 128);
}

// A poor tanh lets a key of 1e17 weigh next to nothing, as it should, or everything: then the result has roundings of that size.
TEST(TiersInABox, KnowHowLargeAMeanAtItsEndIs) {
  constexpr int poor_functions = 16;
  const Policy policy = policy_from_text("bf16-all");
  const Problem problem = problem_from_text(
      "lq=14 lk=9 d=8 dv=16 dtype=bf16 softcap=0x1p+7 keep=open keep_axes=11 values=wide:1 seed=2165739879");
  const Contract contract = emulator::draw_contract(policy, poor_functions);
  ASSERT_EQ(contract.arithmetic.tanh_ulp, 64);
  const emulator::Variant variant = emulator::draw_variant(contract, problem, 12864570275060293475u);
  const Result result(problem, emulator::tightened(contract, variant), contract, variant);
  const Result::Largest largest = result.largest();
  EXPECT_GT(largest.elements, 0);
  EXPECT_GT(largest.lambda, 0);
  EXPECT_LE(largest.lambda, warn);
}

// Normal values, 64 to 512 keys, 48 elements or more: what models run, and where the rigorous interval is wide.
Problem long_rows(std::uint64_t seed) {
  std::uint64_t key = mix(seed ^ 0x6c6f6e67u);
  const auto pick = [&](std::uint64_t n) { return static_cast<Index>(below(key = mix(key), n)); };
  Problem p;
  p.dtype = Format::f16;
  p.lk = 64 + pick(449);
  p.d = Index{32} << pick(3);
  p.dv = Index{16} << pick(3);
  p.lq = (47 + p.dv) / p.dv + pick(3);
  p.causal = pick(3) == 0;
  p.align = Align::bottom_right;
  p.seed = mix(key);
  return p;
}

struct Fault {
  const char* name;
  const char* kept;  // the policy that the kernel keeps, where it promises f16
  emulator::Defect defect = emulator::Defect::none;
};
constexpr Fault faults[] = {
    {"softmax in f16", "f16,softmax=f16"},
    {"pv in f16", "f16,pv=f16"},
    {"exp off by 1e-3", "f16", emulator::Defect::exp_off},
};

Result run_long(const Fault& fault, std::uint64_t seed) {
  const Problem problem = long_rows(seed);
  Contract promised = contract_for(policy_from_text("f16"));
  promised.arithmetic.fold_q = promised.arithmetic.fold_k = promised.arithmetic.fold_sqrt = false;
  Contract kept = promised;
  kept.policy = policy_from_text(fault.kept);
  emulator::Variant variant = emulator::draw_variant(kept, problem, seed);
  variant.defect = fault.defect;
  return {problem, promised, kept, variant};
}

// Faults of precision on long rows, by tier.
TEST(TiersOnLongRows, FindFaultsOfPrecision) {
  constexpr int cases = 60;
  double largest_t = 0, largest_lambda = 0;
  for (std::uint64_t n = 0; n < 3 * cases; ++n) {
    oracle::Statistics statistics;
    const Result result = run_long({"none", "f16"}, 1000 + n);
    ASSERT_NE(result.judge(&statistics).kind, VerdictKind::fail);
    ASSERT_GE(statistics.elements, 48);
    const Result::Aggregate aggregate = result.aggregate(statistics);
    EXPECT_LE(aggregate.t, aggregate.limit) << to_text(result.problem);
    largest_t = std::max(largest_t, aggregate.t);
    largest_lambda = std::max(largest_lambda, statistics.largest_lambda);
  }
  EXPECT_LE(largest_lambda, warn);
  std::printf("conforming kernels: T up to %.3f\n", largest_t);
  for (const Fault& fault : faults) {
    int rigorous = 0, two = 0, three = 0;
    double least_t = 1e300;
    for (std::uint64_t n = 0; n < cases; ++n) {
      const Result result = run_long(fault, n);
      oracle::Statistics statistics;
      const bool failed = result.judge(&statistics).kind == VerdictKind::fail;
      rigorous += failed;
      two += failed || statistics.largest_lambda > warn;
      if (failed) {
        ++three;
        continue;
      }
      const Result::Aggregate aggregate = result.aggregate(statistics);
      three += aggregate.t > aggregate.limit;
      least_t = std::min(least_t, aggregate.t);
    }
    std::printf("%s: found in %d of %d cases by the rigorous tier, %d by lambda %g, %d by T (at least %.3f)\n",
                fault.name, rigorous, cases, two, warn, three, least_t);
    EXPECT_GE(two, cases / 2) << fault.name;
    EXPECT_GE(three, 0.95 * cases) << fault.name;
  }
}

// The weights of these lie just above multiples of 2^-16, and half of them are rounded up where a sum of weights has an ulp of 2^-15: key
// by key, from the first on, that is off by 43 unit roundoffs in every row.
TEST(TiersOnLongRows, DoNotBlameASumOfWeightsThatLieAlikeBetweenItsNumbers) {
  const Problem problem =
      problem_from_text("b=1 hq=3 hkv=3 lq=2 lk=449 d=8 dv=8 dtype=f32 scale=0x1p-16 values=integers:1 seed=0 lk0=7");
  const Inputs inputs = materialise(problem);
  Tensor out = make_out(problem), lse = make_lse(problem);
  const auto at = [](const Tensor& t, Index h, Index i, Index c) { return static_cast<float>(t.at(0, h, i, c)); };
  for (Index h = 0; h < problem.hq; ++h)
    for (Index i = 0; i < problem.lq; ++i) {
      std::vector<float> weights;
      for (Index j = 0; j < problem.lk; ++j) {
        float score = 0;
        for (Index c = 0; c < problem.d; ++c) score += at(inputs.q, h, i, c) * at(inputs.k, h, j, c);
        weights.push_back(score * 0x1p-16F);
      }
      const float top = *std::max_element(weights.begin(), weights.end());
      float sum = 0;
      for (float& weight : weights) sum += weight = std::exp(weight - top);
      for (Index c = 0; c < problem.dv; ++c) {
        float value = 0;
        for (Index j = 0; j < problem.lk; ++j) value += weights[static_cast<std::size_t>(j)] * at(inputs.v, h, j, c);
        out.set(0, h, i, c, value / sum);
      }
    }
  Contract contract;
  contract.policy = policy_from_text("f32");
  oracle::Statistics statistics;
  ASSERT_EQ(oracle::AttentionOracle(contract, problem, inputs).judge(out, lse, &statistics).kind, VerdictKind::pass);
  ASSERT_EQ(statistics.elements, 48);
  EXPECT_GT(statistics.t(), 1);  // by what costs little
  EXPECT_LT(oracle::AttentionOracle(contract, problem, inputs).slow_t(out), 0.5);
}

}  // namespace
}  // namespace attest
