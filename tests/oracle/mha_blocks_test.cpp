// The blocks that live here: correct ones are never blamed, each fault is found from whatever seed.
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "core/rng.hpp"
#include "kernels/mha/registry.hpp"
#include "oracle/mha/mha.hpp"
#include "tests/oracle/mha_draw.hpp"

namespace attest {
namespace {

struct Asked {
  mha::Problem problem;
  mha::Contract contract;
  Verdict verdict;
};

// The n-th problem of a stream, asked of a block.
Asked ask(const kernels::BlockEntry& block, std::uint64_t seed, const char* only_policy = nullptr) {
  constexpr const char* policies[] = {"f32", "f16", "bf16", "f16,gemm=f16", "f64", "f16-acc16", "f16-all"};
  const char* policy = only_policy != nullptr ? only_policy : policies[below(mix(seed), std::size(policies))];
  Asked asked;
  asked.contract = block.contract(mha::policy_from_text(policy));
  asked.problem = testing::draw_block(asked.contract.attention.policy[Stage::storage], seed);
  const mha::Inputs inputs = mha::materialise(asked.problem);
  const Tensor out = mha::make_out(asked.problem);
  const mha::Call call = inputs.call(out);
  block.run(call, asked.contract);
  asked.verdict = oracle::MhaOracle(asked.contract, call).judge(out);
  return asked;
}

TEST(MhaBlocks, ThatAreCorrectAreNeverBlamed) {
  for (const kernels::BlockEntry& block : kernels::builtin_blocks()) {
    Index judged = 0;
    for (std::uint64_t seed = 1; seed <= 1500; ++seed) {
      const Asked asked = ask(block, seed);
      judged += asked.verdict.counts.judged;
      ASSERT_NE(asked.verdict.kind, VerdictKind::fail)
          << block.name << ' ' << mha::to_text(asked.problem) << "\nout[" << asked.verdict.evidence->index[0] << ','
          << asked.verdict.evidence->index[1] << ',' << asked.verdict.evidence->index[2]
          << "] = " << asked.verdict.evidence->got << " in [" << asked.verdict.evidence->lo << ", "
          << asked.verdict.evidence->hi << ']';
    }
    EXPECT_GT(judged, 60000) << block.name;
  }
}

// 19 weights of 1 times values of 4096 overflow an accumulator in f16, and w_out takes 0 times that: NaN. 3 of them do
//    not.
TEST(MhaBlocks, AHeadThatMayOverflowMakesNanOfAWeightOfZero) {
  const mha::Contract contract = mha::contract_for(mha::policy_from_text("f16-all"));
  for (const Index tokens : {19, 3}) {
    mha::Problem problem = mha::problem_from_text(
        "l=1 e=1 heads=1 kv_heads=1 head_dim=2 dtype=f16 biases=none weights=zero m=" + std::to_string(tokens));
    mha::Inputs inputs = mha::materialise(problem);
    for (Index j = 0; j < tokens; ++j) inputs.memory.set(0, j, 0, 0, 64);
    inputs.w_v.set(1, 0, 0, 0, 64);
    inputs.w_out.set(0, 0, 0, 0, 1);
    Tensor out = mha::make_out(problem);
    out.set(0, 0, 0, 0, std::numeric_limits<double>::quiet_NaN());
    const mha::Call call = inputs.call(out);
    EXPECT_EQ(oracle::MhaOracle(contract, call).judge(out).kind == VerdictKind::fail, tokens == 3) << tokens;
    EXPECT_EQ(oracle::MhaOracle(contract, call).judge_slowly(out).kind == VerdictKind::fail, tokens == 3) << tokens;
  }
}

TEST(MhaBlocks, WithAFaultAreFoundFromEverySeed) {
  constexpr int most = 400;
  for (const kernels::BlockEntry& fault : kernels::fault_blocks())
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
      int problems = 0;
      bool found = false;
      while (!found && problems < most)
        found = ask(fault, seed * 1000003 + static_cast<std::uint64_t>(problems++)).verdict.kind == VerdictKind::fail;
      EXPECT_TRUE(found) << fault.name << " from seed " << seed;
      if (seed <= 5) RecordProperty(std::string(fault.name) + '-' + std::to_string(seed), problems);
      std::printf("%s from seed %d: after %d problems\n", std::string(fault.name).c_str(), static_cast<int>(seed),
                  problems);
    }
}

TEST(MhaBlocks, AreNamedOnceAndFaultsNameTheirParents) {
  for (const kernels::BlockEntry& fault : kernels::fault_blocks()) {
    EXPECT_FALSE(fault.report.empty()) << fault.name;
    EXPECT_TRUE(std::ranges::any_of(kernels::builtin_blocks(), [&](const kernels::BlockEntry& block) {
      return block.name == fault.parent;
    })) << fault.name;
  }
}

}  // namespace
}  // namespace attest
