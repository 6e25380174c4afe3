// Stages judged one by one: blocks that keep their contract are never blamed, each defect is found at the stage where
// it is. ATTEST_MHA_PROBLEMS says how many problems conforming blocks are asked.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

#include "core/mha/inputs.hpp"
#include "core/rng.hpp"
#include "kernels/mha/emulated.hpp"
#include "kernels/mha/registry.hpp"
#include "oracle/mha/mha.hpp"
#include "tests/oracle/mha_draw.hpp"

namespace attest {
namespace {

using emulator::BlockDefect;

std::uint64_t problems_or(std::uint64_t otherwise) {
  const char* text = std::getenv("ATTEST_MHA_PROBLEMS");
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

// Returns the stages that are asked for, by the bits of `asked`.
mha::Call::Stages some_of(const mha::StageOutputs& outputs, std::uint64_t asked) {
  mha::Call::Stages stages = outputs.views();
  if ((asked & 1) == 0) stages.q = {};
  if ((asked & 2) == 0) stages.k = {};
  if ((asked & 4) == 0) stages.v = {};
  if ((asked & 8) == 0) stages.heads = {};
  return stages;
}

TEST(MhaStages, OfConformingBlocksAreNeverBlamed) {
  const std::uint64_t problems = problems_or(1500);
  Index judged = 0;
  for (std::uint64_t seed = 1; seed <= problems; ++seed) {
    const testing::NamedBlockContract named =
        seed % 4 == 0 ? testing::draw_unit_contract(seed) : testing::draw_block_contract(seed);
    const mha::Contract contract = named.contract();
    const mha::Problem problem = testing::draw_block(contract.attention.policy[Stage::storage], seed);
    const mha::Inputs inputs = mha::materialise(problem);
    const emulator::BlockVariant variant = emulator::draw_block_variant(contract, problem, seed, seed % 2 == 0);
    // A tensor may be narrower than what the stage leaves: then the next one is not judged from it.
    const bool wide =
        seed % 3 == 0 || (seed % 5 != 0 && (variant.projected == mha::Projected::unrounded || !variant.heads_rounded));
    const DType type = wide && problem.dtype != Format::f64 ? DType::f32 : dtype_of(problem.dtype);
    const mha::StageOutputs outputs = mha::make_stages(problem, type);
    const Tensor out = mha::make_out(problem);
    mha::Call call = inputs.call(out);
    call.stages = some_of(outputs, mix(seed) & 15);
    emulator::run(call, contract, variant);
    const Verdict verdict = oracle::MhaOracle(contract, call).judge_stages(out);
    judged += verdict.counts.judged;
    ASSERT_NE(verdict.kind, VerdictKind::fail)
        << "seed " << seed << ' ' << named.policy << ' ' << named.numbers << '\n'
        << mha::to_text(problem) << '\n'
        << verdict.evidence->tensor << '[' << verdict.evidence->index[0] << ',' << verdict.evidence->index[1] << ','
        << verdict.evidence->index[2] << ',' << verdict.evidence->index[3] << "] = " << verdict.evidence->got << " in ["
        << verdict.evidence->lo << ", " << verdict.evidence->hi << ']';
  }
  EXPECT_GT(judged, static_cast<Index>(problems) * 100);
  std::printf("%lld elements judged\n", static_cast<long long>(judged));
}

TEST(MhaStages, OfTheExplicitBlockAreNeverBlamed) {
  const kernels::BlockEntry& block = kernels::builtin_blocks().front();
  ASSERT_TRUE(block.gives_stages);
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    const char* policies[] = {"f32", "f16", "bf16", "f64"};
    const mha::Contract contract = block.contract(mha::policy_from_text(policies[seed % 4]));
    const mha::Problem problem = testing::draw_block(contract.attention.policy[Stage::storage], seed);
    const mha::Inputs inputs = mha::materialise(problem);
    const mha::StageOutputs outputs = mha::make_stages(problem, dtype_of(problem.dtype));
    const Tensor out = mha::make_out(problem);
    mha::Call call = inputs.call(out);
    call.stages = outputs.views();
    block.run(call, contract);
    const Verdict verdict = oracle::MhaOracle(contract, call).judge_stages(out);
    ASSERT_NE(verdict.kind, VerdictKind::fail) << mha::to_text(problem) << ' ' << verdict.evidence->tensor;
  }
}

// % of cases in which a defect is found, and where.
struct Found {
  int by_out = 0, by_stages = 0;
  std::map<std::string, int> at;
};
Found find(const char* policy, const char* weights, BlockDefect defect, int cases) {
  Found found;
  const mha::Contract contract =
      testing::NamedBlockContract{policy, R"({"exp2":false,"fold":"none","lse_merge":"none","lazy":0})"}.contract();
  for (int n = 0; n < cases; ++n) {
    mha::Problem problem = mha::problem_from_text(std::string("l=16 m=16 e=64 heads=4 kv_heads=4 head_dim=16 dtype=") +
                                                  policy + " weights=" + weights);
    problem.seed = static_cast<std::uint64_t>(n) + 1;
    const mha::Inputs inputs = mha::materialise(problem);
    const mha::StageOutputs outputs = mha::make_stages(problem, dtype_of(problem.dtype));
    const Tensor out = mha::make_out(problem);
    mha::Call call = inputs.call(out);
    call.stages = outputs.views();
    emulator::BlockVariant variant = emulator::draw_block_variant(contract, problem, problem.seed);
    variant.in.order = variant.out.order = emulator::SumOrder::forward;
    variant.defect = defect;
    emulator::run(call, contract, variant);
    oracle::MhaOracle oracle(contract, call);
    found.by_out += oracle.judge(out).kind == VerdictKind::fail;
    const Verdict verdict = oracle.judge_stages(out);
    if (verdict.kind != VerdictKind::fail) continue;
    ++found.by_stages;
    ++found.at[verdict.evidence->tensor];
  }
  return found;
}

TEST(MhaStages, ShowDefectsWhereTheyAre) {
  constexpr int cases = 10;
  for (const char* policy : {"f16", "bf16"})
    for (const auto& [defect, name, first] : {std::tuple{BlockDefect::gemm_16, "gemm", "q"},
                                              {BlockDefect::softmax_16, "softmax", "heads"},
                                              {BlockDefect::gemm_out_16, "w_out", "out"},
                                              {BlockDefect::order_swapped, "k for v", "k"},
                                              {BlockDefect::no_b_v, "b_v", "v"},
                                              {BlockDefect::no_b_k, "b_k", "k"},
                                              {BlockDefect::no_transpose, "transpose", "heads"}}) {
      Found found = find(policy, "dense", defect, cases);
      std::printf("%s %s: out %d, stages %d of %d, first at %s in %d\n", policy, name, found.by_out, found.by_stages,
                  cases, first, found.at[first]);
      EXPECT_EQ(found.at[first], cases) << policy << ' ' << name;
    }
}

}  // namespace
}  // namespace attest
