// Long rows in which most keys weigh next to nothing: an addition loses no more than the lesser of its terms, so that
// such keys cost their weight and not a rounding each (docs/bounds.md, section 4).
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>

#include <gtest/gtest.h>

#include "core/rng.hpp"
#include "kernels/emulated/contracts.hpp"
#include "tests/oracle/trial.hpp"

namespace attest {
namespace {

using testing::Trial;

// One query of one element, 1, so that each key is its score.
Problem row_of(Format dtype, Index keys) {
  Problem problem = problem_from_text("lq=1 d=1 dv=2 scale=1 values=constant:1 lse=f32");
  problem.dtype = dtype;
  problem.lk = keys;
  return problem;
}

Contract online(const char* policy) {
  Contract contract = contract_for(policy_from_text(policy));
  Arithmetic& a = contract.arithmetic;
  a.lazy = 0;
  a.exp2 = a.fold_q = a.fold_k = a.fold_sqrt = a.normalise_before = a.sum_of_rounded = false;
  a.lse_merge = LseMerge::none;
  a.key_order = KeyOrder::ascending;
  return contract;
}

// A kernel that flushes weights below the smallest normal f16: 4.5e-5 of the result here, which 512 roundings of f32
// would hide.
TEST(LightKeys, AreMissed) {
  const auto fill = [](Index kept) {
    return [kept](Inputs& in) {
      for (Index j = 0; j < 512; ++j) {
        in.k.set(0, 0, j, 0, -0.5 * static_cast<double>(j));
        in.v.set(0, 0, j, 0, j < kept ? 1 : 0);
      }
    };
  };
  const Trial whole(row_of(Format::f32, 512), online("f32"), fill(512));
  EXPECT_EQ(whole.judge().kind, VerdictKind::pass);
  Trial flushed(row_of(Format::f32, 512), online("f32"), fill(20));
  flushed.inputs = whole.inputs.clone();
  EXPECT_GT(flushed.out.at(0, 0, 0, 0), 1 - 5e-5);
  EXPECT_EQ(flushed.judge().kind, VerdictKind::fail);
  EXPECT_EQ(flushed.judge_slowly().kind, VerdictKind::fail);
}

// Weights that the sum misses show in the log-sum-exp.
TEST(LightKeys, AreMissedInTheSum) {
  const auto fill = [](Inputs& in) {
    for (Index j = 0; j < 512; ++j) in.k.set(0, 0, j, 0, -0.5 * static_cast<double>(j));
  };
  Trial trial(row_of(Format::f32, 512), online("f32"), fill);
  EXPECT_EQ(trial.judge().kind, VerdictKind::pass);
  const double off = 2e-5;  // 512 roundings are 3e-5
  trial.lse.set(0, 0, 0, 0, trial.lse.at(0, 0, 0, 0) - off);
  EXPECT_EQ(trial.judge().kind, VerdictKind::fail);
  EXPECT_EQ(trial.judge_slowly().kind, VerdictKind::fail);
}

// A row with 0.53 of the weight on one key, and the rest on a thousand, none of which changes a running sum that has
// the former: a kernel may lose them all, in the values and in the sum, and the other way round none.
TEST(LightKeys, MayAllBeLost) {
  for (const Index heavy : {Index{0}, Index{1000}}) {
    const Trial trial(row_of(Format::bf16, 1001), online("bf16-all"), [heavy](Inputs& in) {
      for (Index j = 0; j <= 1000; ++j) {
        in.k.set(0, 0, j, 0, j == heavy ? 0 : -7);
        in.v.set(0, 0, j, 0, j == heavy ? -1 : 1);
        in.v.set(0, 0, j, 1, 1);
      }
    });
    EXPECT_EQ(trial.judge().kind, VerdictKind::pass) << heavy;
    if (heavy == 0) {
      EXPECT_EQ(trial.out.at(0, 0, 0, 0), -1);
    }
    EXPECT_EQ(trial.judge_slowly().kind, VerdictKind::pass) << heavy;
  }
}

// Scores that fall by any number of nats, in any order, so that keys weigh more than a rounding of each sum, about as
// much, or less; values of one sign, of both, or following the scores. Every scheme that a contract permits.
TEST(LightKeys, BlameNoKernelThatConforms) {
  int alarms = 0;
  std::int64_t judged = 0;
  for (std::uint64_t n = 0; n < 13'500; ++n) {
    std::uint64_t key = mix(n ^ 0x6c69676874);
    const auto pick = [&](std::uint64_t count) { return static_cast<Index>(below(key = mix(key), count)); };
    const Policy& policy = named_policies()[n % 9].policy;
    const Contract contract = emulator::draw_any_contract(policy, static_cast<int>(n / 9 % emulator::all_variants));
    const Problem problem = row_of(policy[Stage::storage], 32 + pick(pick(8) == 0 ? 900 : 200));
    const double deepest = 1.5 * -std::log(unit_roundoff(policy[pick(2) == 0 ? Stage::pv : Stage::softmax]));
    const Index heads = 1 + pick(8), shape = pick(4), order = pick(3), signs = pick(4);
    Trial trial(problem, contract, [&](Inputs& in) {
      for (Index j = 0; j < problem.lk; ++j) {
        const Index rank = order == 0 ? j : order == 1 ? problem.lk - 1 - j : (j * 197 + 5) % problem.lk;
        const double fall = static_cast<double>(rank) / static_cast<double>(problem.lk);
        const double noise = static_cast<double>(pick(1000)) / 1000;
        const double score = rank < heads ? 0 : shape == 0 ? -deepest * fall : shape == 1 ? -deepest : -deepest * noise;
        in.k.set(0, 0, j, 0, round_to(problem.dtype, score));
        for (Index c = 0; c < 2; ++c) {
          const double size = signs == 0 ? 1 : 0.5 + static_cast<double>(pick(1000)) / 1000;
          const bool negative = signs == 1 ? rank < heads : signs == 2 && pick(2) == 0;
          in.v.set(0, 0, j, c, round_to(problem.dtype, negative ? -size : size));
        }
      }
    });
    trial.make(emulator::draw_variant(contract, problem, n));
    const Verdict verdict = trial.judge();
    judged += verdict.counts.judged;
    for (const VerdictKind kind : {verdict.kind, trial.judge_slowly().kind})
      if (kind == VerdictKind::fail && ++alarms <= 5)
        ADD_FAILURE() << n << " " << to_text(policy) << " " << to_text(problem);
  }
  EXPECT_EQ(alarms, 0);
  EXPECT_GE(judged, 20'000);
}

// The whole of what is permitted is near what a kernel can lose.
TEST(LightKeys, MayLoseMostOfWhatIsPermitted) {
  const Contract contract = online("f16-acc16");
  const Trial trial(row_of(Format::f16, 513), contract, [](Inputs& in) {
    for (Index j = 0; j < 513; ++j) {
      in.k.set(0, 0, j, 0, j == 0 ? 0 : -8);  // 3.4e-4 each, less than half an ulp of the first
      in.v.set(0, 0, j, 0, 1);
    }
  });
  const oracle::Enclosure permitted =
      oracle::AttentionOracle(contract, trial.problem, trial.inputs).out_enclosure(0, 0, 0, 0);
  const double got = trial.out.at(0, 0, 0, 0);
  EXPECT_EQ(trial.judge().kind, VerdictKind::pass);
  std::printf("lost %.3g of %.3g\n", permitted.y - got, permitted.y - permitted.lo);
  EXPECT_GT(permitted.y - got, 0.5 * (permitted.y - permitted.lo));
}

}  // namespace
}  // namespace attest
