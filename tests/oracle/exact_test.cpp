// Scores that nothing rounds (docs/bounds.md, section 1): the formats and freedoms that make them so, each at its edge,
// as two programs see it; kernels that keep such a contract, which are never blamed; and kernels that round where it
// lets them not, which are. Inputs are integers: of magnitude 1, or as large as a format may hold their sums.
#include <cmath>
#include <functional>
#include <limits>
#include <string>

#include <gtest/gtest.h>

#include "certify/exact.hpp"
#include "core/rng.hpp"
#include "kernels/emulated/contracts.hpp"
#include "oracle/exact.hpp"
#include "tests/oracle/draw.hpp"
#include "tests/oracle/trial.hpp"

namespace attest {
namespace {

using testing::Trial;

const char* const strict = R"({"exp2":false,"lse_merge":"none","lazy":0})";

Contract contract_of(const char* policy, const std::string& json) {
  Contract contract = contract_from_text(json, policy_from_text(policy));
  contract.empty_row = EmptyRow::zero;
  return contract;
}

struct Scores {
  const char* policy = "f16-all";
  std::string contract = strict, problem;
  double q = 1;      // every element of q, two in a row
  double k[2][2]{};  // two keys
  double bias = 0;   // bias of the second key, where the problem has one
  bool scores = true, arguments = true;
};

void expect(const Scores& s) {
  const Contract contract = contract_of(s.policy, s.contract);
  const Problem problem = problem_from_text("lq=1 lk=2 d=2 dv=1 values=constant:1 " + s.problem);
  Inputs inputs = materialise(problem);
  for (Index c = 0; c < 2; ++c) {
    inputs.q.set(0, 0, 0, c, s.q);
    for (Index j = 0; j < 2; ++j) inputs.k.set(0, 0, j, c, s.k[j][c]);
  }
  if (inputs.bias.present()) {
    inputs.bias.set(0, 0, 0, 0, 0);
    inputs.bias.set(0, 0, 0, 1, s.bias);
  }
  const oracle::Exactness exact = oracle::exactness(contract, inputs);
  EXPECT_EQ(exact.scores, s.scores) << s.policy << ' ' << s.contract << ' ' << s.problem;
  EXPECT_EQ(exact.arguments, s.arguments) << s.policy << ' ' << s.contract << ' ' << s.problem;
  const certify::Exact proof = certify::what_is_exact(contract, inputs);
  EXPECT_EQ(proof.scores, exact.scores);
  EXPECT_EQ(proof.arguments, exact.arguments);
}

TEST(Exact, SumsReachTheEndOfAFormat) {
  const std::string f16 = "dtype=f16 scale=1";
  expect({.problem = f16, .k = {{511, 512}, {1, 0}}});
  expect({.problem = f16, .k = {{512, 512}, {1, 0}}, .arguments = false});  // a difference may be 2048
  expect({.problem = f16, .k = {{1023, 1024}, {1, 0}}, .arguments = false});
  expect({.problem = f16, .k = {{1024, 1024}, {1, 0}}, .scores = false, .arguments = false});
  // Partial sums count, not what cancels.
  expect({.problem = f16, .k = {{1024, -1024}, {1, 0}}, .scores = false, .arguments = false});
  expect({.problem = f16, .q = 0.5, .k = {{1024, 1024}, {2, 0}}, .arguments = false});
  expect({.policy = "f16", .problem = f16, .k = {{1024, 1024}, {1, 0}}});  // sums and scores are f32
  // A row of q and all of k, or all of q and a row of k: the smaller bound of the two.
  expect({.policy = "f32", .problem = "dtype=f32 scale=1", .q = 0x1p12, .k = {{0x1p10, 0x1p10}, {1, 0}}});
  expect({.policy = "f32",
          .problem = "dtype=f32 scale=1",
          .q = 0x1p12 + 1,
          .k = {{0x1p11, 0x1p11}, {1, 0}},
          .scores = false,
          .arguments = false});
}

TEST(Exact, NoNumberIsSubnormal) {
  expect({.problem = "dtype=f16 scale=1", .q = 0x1p-7, .k = {{0x1p-7, 0}, {0, 0x1p-7}}});
  expect({.problem = "dtype=f16 scale=1",
          .q = 0x1p-7,
          .k = {{0x1p-8, 0}, {0, 0x1p-7}},
          .scores = false,
          .arguments = false});
  expect({.problem = "dtype=f16 scale=0.5",
          .q = 0x1p-7,
          .k = {{0x1p-7, 0}, {0, 0x1p-7}},
          .scores = false,
          .arguments = false});
  // One of more bits than its operand's format.
  expect({.policy = "f32,operand=f16",
          .problem = "dtype=f32 scale=1",
          .q = 2049,
          .k = {{1, 0}, {0, 1}},
          .scores = false,
          .arguments = false});
}

// Flush-to-zero reads what is subnormal in storage as 0, however many such numbers the operand's format holds.
TEST(Exact, SubnormalInputsMayBeFlushedAsTheyAreRead) {
  const std::string flushing = R"({"exp2":false,"lse_merge":"none","lazy":0,"flush_to_zero":true})";
  const auto with = [](const char* policy, const std::string& contract, const char* problem, double q, double k,
                       bool exact) {
    expect({.policy = policy,
            .contract = contract,
            .problem = problem,
            .q = q,
            .k = {{k, 0}, {0, k}},
            .scores = exact,
            .arguments = exact});
  };
  const char* const f16 = "dtype=f16 scale=1";
  with("f16,operand=f32", flushing, f16, 0x1p15, 0x1p-14, true);
  with("f16,operand=f32", flushing, f16, 0x1p15, 0x1p-20, false);
  with("f16,operand=f32", flushing, f16, 0x1p-20, 0x1p15, false);
  with("f16,operand=f32", strict, f16, 0x1p15, 0x1p-20, true);
  with("f32,operand=f64,scale=f64", flushing, "dtype=f32 scale=1", 0x1p126, 0x1p-131, false);
  with("f32,operand=f64,scale=f64", strict, "dtype=f32 scale=1", 0x1p126, 0x1p-131, true);
}

TEST(Exact, TheScaleIsAPowerOfTwoAndItsRootWhereThatIsFolded) {
  const auto with = [](const char* scale, bool exact, const char* fold) {
    expect({.contract = std::string(R"({"exp2":false,"lse_merge":"none","lazy":0,"fold":)") + fold + "}",
            .problem = std::string("dtype=f16 scale=") + scale,
            .k = {{3, 4}, {1, 0}},
            .scores = exact,
            .arguments = exact});
  };
  for (const char* fold : {R"("none")", R"("q")", R"("k")", R"("sqrt")"}) {
    with("0.25", true, fold);
    with("-0.25", true, fold);  // no root is taken of it
    with("0.75", false, fold);
    with("0", true, fold);
  }
  with("0.5", true, R"(["q","k"])");
  with("0.5", false, R"("sqrt")");
  with("-0.5", true, R"("sqrt")");
  with("0x1p-15", false, R"("none")");
}

TEST(Exact, WhatMayRoundIsNotExact) {
  const std::string problem = "dtype=f16 scale=1";
  const auto with = [&](const char* contract, bool scores, bool arguments, const std::string& text) {
    expect({.contract = contract,
            .problem = text,
            .k = {{3, 4}, {1, 0}},
            .bias = 2,
            .scores = scores,
            .arguments = arguments});
  };
  with(strict, true, true, problem);
  with(strict, false, false, problem + " softcap=4");
  with(R"({"lse_merge":"none","lazy":0})", false, false, problem);  // 2^x
  with(R"({"exp2":false,"lse_merge":"none","lazy":0,"kappa":3})", false, false, problem);
  with(R"({"exp2":false,"lazy":0})", true, false, problem);  // merges
  with(R"({"exp2":false,"lse_merge":"none","lazy":1})", true, false, problem);
  with(R"({"exp2":false,"lse_merge":"none","lazy":0,"normalise":["after","lse"]})", true, false, problem);
  with(R"({"exp2":false,"lse_merge":"none","lazy":0,"flush_to_zero":true})", true, true, problem);
  with(strict, true, true, problem + " bias=normal");
}

TEST(Exact, ABiasIsAMultipleToo) {
  const std::string problem = "dtype=f16 scale=1 bias=normal";
  const auto with = [&](double bias, bool scores, bool arguments) {
    expect({.problem = problem, .k = {{3, 4}, {1, 0}}, .bias = bias, .scores = scores, .arguments = arguments});
  };
  with(0x1p-7, true, true);   // (7 + 2^-7) 2^7 < 2^10
  with(0x1p-8, true, false);  // the difference may need 12 bits
  with(0x1p-9, false, false);
  with(1016, true, true);
  with(2040, true, false);
  with(2041, false, false);
  with(-testing::infinity, true, true);  // excludes its key
  with(testing::infinity, false, false);
  with(-65504, false, false);
}

TEST(Exact, WhatIsNotFiniteIsNotExact) {
  for (const double bad : {testing::infinity, -testing::infinity, testing::nan}) {
    expect({.problem = "dtype=f16 scale=1", .q = bad, .k = {{3, 4}, {1, 0}}, .scores = false, .arguments = false});
    expect({.problem = "dtype=f16 scale=1", .k = {{3, 4}, {1, bad}}, .scores = false, .arguments = false});
  }
}

// Small integers as q, k and bias of a random problem, as large as its formats hold exactly, now and then.
void make_integers(Inputs& in, std::uint64_t seed) {
  std::uint64_t state = seed;
  const auto next = [&state](Index most) {
    state = mix(state + 1);
    return static_cast<double>(static_cast<Index>(state % static_cast<std::uint64_t>(2 * most + 1)) - most);
  };
  const auto fill = [&](Tensor& tensor, Index most) {
    if (!tensor.present()) return;
    const auto shape = tensor.shape();
    for (Index b = 0; b < shape[0]; ++b)
      for (Index h = 0; h < shape[1]; ++h)
        for (Index i = 0; i < shape[2]; ++i)
          for (Index c = 0; c < shape[3]; ++c)
            if (tensor.at(b, h, i, c) > -testing::infinity) tensor.set(b, h, i, c, next(most));
  };
  const Index most = Index{1} << seed % 4;
  fill(in.q, most);
  fill(in.k, 1);
  fill(in.bias, 2 * most);
}

struct Count {
  int results = 0, exact_arguments = 0, failed = 0;
};

// Judges emulated kernels on integers, with scales that are powers of two; `contract_run` is the one that they keep.
// `known`: whether the oracle may know that nothing is rounded.
Count judge_integers(const char* contract, const char* contract_run, int problems, bool known = true) {
  Count count;
  for (const NamedPolicy& named : named_policies())
    for (int n = 0; n < problems; ++n) {
      const std::uint64_t seed =
          mix(static_cast<std::uint64_t>(n) * 16 + static_cast<std::uint64_t>(count.results) % 16);
      Problem problem = testing::draw_problem(named.policy[Stage::storage], seed);
      problem.softcap = 0;
      problem.scale = std::ldexp(1.0, -2 * static_cast<int>(seed % 3));
      if (problem.lk == 0 || problem.d == 0) continue;
      const std::string policy(named.name);
      Contract promised = contract_of(policy.c_str(), contract);
      const Contract kept = contract_of(policy.c_str(), contract_run);
      Inputs inputs = materialise(problem);
      make_integers(inputs, seed);
      const oracle::Exactness exact = oracle::exactness(promised, inputs);
      if (!exact.scores) continue;
      const certify::Exact proof = certify::what_is_exact(promised, inputs);
      EXPECT_TRUE(proof.scores);
      EXPECT_EQ(proof.arguments, exact.arguments);
      if (!known) promised.arithmetic.kappa = 1 + 1e-9;
      Tensor out = make_out(problem), lse = make_lse(problem);
      emulator::run(inputs, kept, emulator::draw_variant(kept, problem, seed), out, lse);
      oracle::AttentionOracle judge(promised, problem, inputs);
      const Verdict quick = judge.judge(out, lse), slow = judge.judge_slowly(out, lse);
      EXPECT_EQ(quick.kind, slow.kind) << policy << ' ' << to_text(problem);
      ++count.results;
      count.exact_arguments += exact.arguments;
      count.failed += slow.kind == VerdictKind::fail;
    }
  return count;
}

TEST(Exact, KernelsThatKeepTheContractAreNotBlamed) {
  for (const char* contract :
       {strict, R"({"exp2":false,"lse_merge":"none","lazy":0,"normalise":"after","sum_of":"unrounded"})",
        R"({"exp2":false,"lse_merge":"none","lazy":0,"normalise":"before","exp_ulp":4})", R"({"exp2":false})",
        R"({"exp2":false,"lse_merge":"chain","splits_max":4})",
        R"({"exp2":false,"lse_merge":"none","normalise":"lse"})", R"({"exp2":false,"flush_to_zero":true})"}) {
    const Count count = judge_integers(contract, contract, 150);
    EXPECT_GT(count.results, 500) << contract;
    EXPECT_EQ(count.failed, 0) << contract;
  }
}

TEST(Exact, KernelsThatRoundOnTheWayAre) {
  const char* const sharp = R"({"exp2":false,"lse_merge":"none","lazy":0,"normalise":"after","sum_of":"unrounded"})";
  const Count exact = judge_integers(sharp, sharp, 150);
  EXPECT_GT(exact.exact_arguments, 500);
  const char* const octaves = R"({"lse_merge":"none","lazy":0,"normalise":"after","sum_of":"unrounded"})";
  const Count found = judge_integers(sharp, octaves, 150), hidden = judge_integers(sharp, octaves, 150, false);
  std::printf("2^x where e^x is promised: %d of %d results outside, %d if scores could be rounded\n", found.failed,
              found.results, hidden.failed);
  EXPECT_GE(found.failed, hidden.failed + 20);
}

}  // namespace
}  // namespace attest
