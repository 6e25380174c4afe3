// The statistical tier of layer_norm with the shipped thresholds: conforming kernels are not blamed, in any policy, whose orders do
// not look at the numbers; and faults that no interval sees are found by it.
//
// ATTEST_LAYER_NORM_ROWS (120000) is how many rows of conforming kernels are asked, ATTEST_LAYER_NORM_SEED (7) which.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <map>
#include <string>

#include "core/rng.hpp"
#include "kernels/layer_norm/emulated/draw.hpp"
#include "oracle/layer_norm/alike.hpp"
#include "oracle/layer_norm/calibration.hpp"
#include "oracle/layer_norm/oracle.hpp"
#include "tests/setting.hpp"

namespace attest::oracle::layer_norm {
namespace {

namespace emulated = attest::emulator::layer_norm;
using attest::layer_norm::FlushToZero;
using attest::layer_norm::make_out;
using attest::layer_norm::policy_from_text;
using attest::layer_norm::problem_from_text;
using attest::layer_norm::Values;
using emulated::Defect;

struct Answer {
  bool rigorous, spread, fit;  // whether each objects
  double lambda, t;
};

Answer answer_of(const Contract& contract, const Problem& problem, const emulated::Scheme& scheme) {
  const Inputs inputs = materialise(problem);
  Tensor out = make_out(problem), none;
  emulated::run(inputs, contract, scheme, out, none);
  oracle::Statistics statistics;
  LayerNormOracle judge(contract, problem, inputs);
  const Verdict verdict = judge.judge(out, none, &statistics);
  const Thresholds at = thresholds(shipped_calibration(), contract.policy, problem);
  return {verdict.kind == VerdictKind::fail, statistics.largest_lambda > at.fail,
          at.t && statistics.elements >= least_elements && statistics.t() > *at.t, statistics.largest_lambda,
          statistics.t()};
}

TEST(LayerNormStatistical, NoConformingKernelIsBlamed) {
  const std::uint64_t rows = setting("ATTEST_LAYER_NORM_ROWS", 120000), seed = setting("ATTEST_LAYER_NORM_SEED", 7);
  struct Tally {
    std::uint64_t rows = 0, asked = 0;
    double lambda = 0, t = 0;
  };
  std::map<std::string, Tally> tallies;
  std::uint64_t seen = 0;
  for (std::uint64_t n = 0; seen < rows; ++n) {
    const std::uint64_t key = extend(mix(seed), n);
    const auto& named = attest::layer_norm::named_policies()[n % 6];
    Contract contract = emulated::draw_contract(key);
    contract.policy = named.policy;
    contract.arithmetic.kappa = 1;
    contract.arithmetic.flush_to_zero = FlushToZero::no;
    Problem problem = emulated::draw_problem(contract, 1024, key);
    constexpr Values spoken_of[] = {Values::uniform, Values::normal, Values::roots_large, Values::roots_small,
                                    Values::huge};
    if (n % 2) problem.values = spoken_of[n / 2 % 5];
    problem.rows = std::max<Index>(1, std::min<Index>(16, 4096 / problem.hidden));
    const bool rms = problem.norm == attest::layer_norm::Norm::rms;
    emulated::Scheme scheme = emulated::draw_scheme(contract, problem.hidden, rms, key);
    if (scheme.order > emulated::Order::shuffled) scheme.order = static_cast<emulated::Order>(key % 3);
    const Answer answer = answer_of(contract, problem, scheme);
    seen += static_cast<std::uint64_t>(problem.rows);
    Tally& tally = tallies[std::string(named.name)];
    tally.rows += static_cast<std::uint64_t>(problem.rows);
    tally.asked += answer.t > 0;
    tally.lambda = std::max(tally.lambda, answer.lambda);
    tally.t = std::max(tally.t, answer.t);
    EXPECT_FALSE(answer.rigorous) << to_text(problem);
    EXPECT_FALSE(answer.spread) << named.name << " lambda " << answer.lambda << " " << to_text(problem);
    EXPECT_FALSE(answer.fit) << named.name << " T " << answer.t << " " << to_text(problem);
  }
  for (const auto& [name, tally] : tallies)
    fmt::print("{:10} rows {:6} results fitted {:5} lambda {:6.2f} T {:6.2f}\n", name, tally.rows, tally.asked,
               tally.lambda, tally.t);
}

// Most elements are 65,504 or -65,504, and their squares about the mean are rounded by one of two amounts: one after the other they come to
// 408 unit roundoffs too much.
TEST(LayerNormStatistical, DoesNotBlameSquaresThatAreRoundedAlike) {
  const Problem problem = problem_from_text(
      "rows=1 hidden=2048 dtype=f16 beta=one values=uniform amplitude=0x1p+19 seed=13022516972352080678 rows0=13");
  const Inputs inputs = materialise(problem);
  const auto n = static_cast<std::size_t>(problem.hidden);
  std::vector<float> x(n);
  for (std::size_t i = 0; i < n; ++i) x[i] = static_cast<float>(inputs.x.at(0, static_cast<Index>(i)));
  float mean = 0, squares = 0;
  for (const float element : x) mean += element;
  mean /= static_cast<float>(n);
  for (const float element : x) squares += (element - mean) * (element - mean);
  const float root = 1 / std::sqrt(squares / static_cast<float>(n) + static_cast<float>(inputs.epsilon));
  const auto contract = attest::layer_norm::contract_for(policy_from_text("f16"));
  LayerNormOracle judge(contract, problem, inputs);
  double largest = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const auto column = static_cast<Index>(i);
    const float y =
        (x[i] - mean) * root * static_cast<float>(inputs.gamma.at(column)) + static_cast<float>(inputs.beta.at(column));
    largest = std::max(largest, judge.lambda_needed(0, column, round_to(Format::f16, y)));
  }
  EXPECT_LT(largest, 2.5);
}

TEST(LayerNormStatistical, ErrorsThatPointOneWayAreLeftToTheIntervals) {
  Contract contract = attest::layer_norm::contract_for(policy_from_text("f32"));
  const Problem problem = problem_from_text("rows=2 hidden=64 seed=3");
  const Inputs inputs = materialise(problem);
  const auto applies = [&](const Contract& promised) {
    return LayerNormOracle(promised, problem, inputs).statistical_enclosure(0, 3, 4).applies;
  };
  EXPECT_TRUE(applies(contract));
  contract.arithmetic.kappa = 3;
  EXPECT_FALSE(applies(contract));
  contract.arithmetic.kappa = 1;
  contract.arithmetic.flush_to_zero = FlushToZero::results;
  EXPECT_FALSE(applies(contract));
  EXPECT_FALSE(statistical_refusal(contract).empty());
}

// The lambda that a value needs is the least whose rounded interval holds it.
TEST(LayerNormStatistical, LambdaNeededIsWhereTheIntervalEnds) {
  Contract contract = attest::layer_norm::contract_for(policy_from_text("f32"));
  const Problem problem = problem_from_text("rows=1 hidden=256 offset=10 seed=3");
  const Inputs inputs = materialise(problem);
  LayerNormOracle judge(contract, problem, inputs);
  for (const double lambda : {1.0, 4.0}) {
    const StatisticalEnclosure e = judge.statistical_enclosure(0, 7, lambda);
    ASSERT_TRUE(e.applies);
    const double edge = round_to(Format::f32, e.hi);
    EXPECT_LE(judge.lambda_needed(0, 7, edge), lambda * (1 + 1e-6));
    EXPECT_GT(judge.lambda_needed(0, 7, edge + 4 * 0x1p-24 * std::fabs(edge)), lambda);
  }
}

struct Planted {
  const char *policy, *problem;
  Defect defect;
};

// As counting every pair has it: of few numbers, of many, of 0 of either sign.
TEST(LayerNormStatistical, HowManyKeysAreAlike) {
  for (std::uint64_t n = 0; n < 200; ++n) {
    const std::uint64_t few = 1 + below(mix(n), n % 2 ? 5 : 1000);
    const auto count = static_cast<Index>(1 + below(mix(n ^ 1), 300));
    const auto key = [&](std::size_t i) {
      const auto of = [&](std::uint64_t part) {
        const double size = static_cast<double>(below(extend(extend(n, i), part), few));
        return i % 3 ? size / 3 : -size / 3;
      };
      return std::array{of(0), of(1)};
    };
    double pairs = 0;
    for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i)
      for (std::size_t j = 0; j < static_cast<std::size_t>(count); ++j) pairs += key(i) == key(j);
    const auto all = static_cast<double>(count);
    EXPECT_EQ(alike_of(count, key), pairs / all / all) << n;
  }
}

// Each of these keeps its intervals, on every one of 40 problems, and most break the statistical tier.
TEST(LayerNormStatistical, FindsFaultsThatNoIntervalSees) {
  constexpr Planted planted[] = {
      {"f32", "rows=16 hidden=1024 offset=100 epsilon=1e-5", Defect::no_epsilon},
      {"f32", "rows=16 hidden=1024 offset=100 epsilon=1e-5", Defect::epsilon_outside},
      {"f32", "rows=16 hidden=1024 offset=100", Defect::count_less_one},
      {"f16", "rows=16 hidden=1024 epsilon=1e-5", Defect::no_epsilon},
  };
  for (const Planted& p : planted) {
    Contract contract = attest::layer_norm::contract_for(policy_from_text(p.policy));
    int spread = 0, fit = 0, rigorous = 0, right = 0;
    constexpr int problems = 40;
    double least = 1e300, most_right = 0;
    for (int n = 0; n < problems; ++n) {
      Problem problem = problem_from_text(p.problem);
      problem.dtype = contract.policy[Stage::storage];
      problem.seed = static_cast<std::uint64_t>(n) + 1;
      emulated::Scheme scheme;
      scheme.fma = n % 2 == 0;
      const Answer sound = answer_of(contract, problem, scheme);
      right += sound.rigorous || sound.spread || sound.fit;
      most_right = std::max(most_right, sound.t);
      scheme.defect = p.defect;
      const Answer answer = answer_of(contract, problem, scheme);
      rigorous += answer.rigorous;
      spread += answer.spread;
      fit += answer.fit;
      least = std::min(least, answer.t);
    }
    fmt::print("{} defect {} {}: intervals {} lambda {} T {} of {}; least T {:.2f}, of sound ones at most {:.2f}\n",
               p.policy, static_cast<int>(p.defect), p.problem, rigorous, spread, fit, problems, least, most_right);
    EXPECT_EQ(right, 0) << p.problem;
    EXPECT_EQ(rigorous, 0) << p.problem;
    EXPECT_GE(std::max(spread, fit), problems * 9 / 10) << p.problem;
  }
}

}  // namespace
}  // namespace attest::oracle::layer_norm
