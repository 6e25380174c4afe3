// Laws of attention blocks: conforming blocks keep them, to the last bit where they say so, and defects do not.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include <functional>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "kernels/mha/emulated.hpp"
#include "kernels/mha/registry.hpp"
#include "oracle/mha/mha.hpp"
#include "properties/mha/laws.hpp"
#include "tests/oracle/mha_draw.hpp"

namespace attest {
namespace {

using emulator::BlockDefect;
using emulator::BlockVariant;
using properties::BlockLaw;
using properties::BlockTrial;

// Returns the output of a block for the inputs of a trial.
Tensor asked(const mha::Inputs& inputs, const std::function<void(const mha::Call&)>& run) {
  Tensor out = mha::make_out(inputs.problem);
  run(inputs.call(out));
  return out;
}

const BlockLaw& law_named(std::string_view name) {
  for (const BlockLaw& law : properties::block_laws())
    if (law.name == name) return law;
  throw std::out_of_range(std::string(name));
}

TEST(MhaLaws, AreKeptByTheBlocksThatLiveHere) {
  std::map<std::string_view, int> passed;
  for (const kernels::BlockEntry& block : kernels::builtin_blocks())
    for (std::uint64_t seed = 1; seed <= 500; ++seed) {
      constexpr const char* policies[] = {"f32", "f16", "bf16", "f16,gemm=f16", "f64", "f16-acc16"};
      const mha::Contract contract = block.contract(mha::policy_from_text(policies[seed % 6]));
      const mha::Inputs inputs = mha::materialise(testing::draw_block(contract.attention.policy[Stage::storage], seed));
      const auto run = [&](const mha::Call& call) { block.run(call, contract); };
      const Tensor out = asked(inputs, run);
      const BlockTrial trial{contract, inputs, out, [&](const mha::Inputs& of) { return asked(of, run); }};
      for (const BlockLaw& law : properties::block_laws()) {
        const Verdict verdict = properties::check(law, trial);
        ASSERT_NE(verdict.kind, VerdictKind::fail)
            << block.name << ' ' << law.name << ' ' << mha::to_text(inputs.problem) << " got " << verdict.evidence->got
            << ", expected " << verdict.evidence->expected;
        passed[law.name] += verdict.kind == VerdictKind::pass;
      }
    }
  for (const BlockLaw& law : properties::block_laws()) EXPECT_GE(passed[law.name], 10) << law.name;
}

struct Told {
  int asked = 0, failed = 0;
  [[nodiscard]] double share() const { return asked == 0 ? -1 : 100.0 * failed / asked; }
};

// Counts the problems that a law applies to, and those of them in which it fails an emulated block with a defect.
Told tell(const BlockLaw& law, const std::string& policy, const std::string& numbers, BlockDefect defect,
          const std::string& weights, int problems) {
  Told told;
  for (int n = 1; n <= problems; ++n) {
    mha::Contract contract = mha::contract_from_json(nlohmann::json::parse(numbers), mha::policy_from_text(policy));
    contract.attention.deterministic = Deterministic::rerun;
    mha::Problem problem = mha::problem_from_text("l=5 m=8 e=32 heads=4 kv_heads=4 head_dim=8 weights=" + weights);
    problem.dtype = contract.attention.policy[Stage::storage];
    problem.seed = static_cast<std::uint64_t>(n);
    if (weights == "selection") problem.scale = 256;
    const mha::Inputs inputs = mha::materialise(problem);
    BlockVariant variant = emulator::draw_block_variant(contract, problem, problem.seed);
    variant.defect = defect;
    variant.in.order = variant.out.order =
        static_cast<emulator::SumOrder>(n % 4);  // not by the values that laws change
    const auto run = [&](const mha::Call& call) { emulator::run(call, contract, variant); };
    const Tensor out = asked(inputs, run);
    const BlockTrial trial{contract, inputs, out, [&](const mha::Inputs& of) { return asked(of, run); }};
    const Verdict verdict = properties::check(law, trial);
    if (verdict.kind == VerdictKind::skip || verdict.kind == VerdictKind::vacuous) continue;
    ++told.asked;
    told.failed += verdict.kind == VerdictKind::fail;
  }
  return told;
}

constexpr const char* plain = R"({"lse_merge":"none"})";

TEST(MhaLaws, OfStructureSeeStructure) {
  for (const char* policy : {"f32", "f16", "bf16"}) {
    for (const char* law : {"block-lone-head", "block-value-sign", "block-score-sign", "block-repeat"})
      EXPECT_EQ(tell(law_named(law), policy, plain, BlockDefect::none, "dense", 20).share(), 0) << law << ' ' << policy;
    EXPECT_EQ(tell(law_named("block-head-permutation"), policy, plain, BlockDefect::none, "cancelling", 20).share(), 0)
        << policy;
    EXPECT_GE(tell(law_named("block-lone-head"), policy, plain, BlockDefect::no_transpose, "dense", 20).share(), 90)
        << policy;
    EXPECT_GE(tell(law_named("block-lone-head"), policy, plain, BlockDefect::order_interleaved, "dense", 20).share(),
              90)
        << policy;
    EXPECT_GE(tell(law_named("block-value-sign"), policy, plain, BlockDefect::no_transpose, "dense", 20).share(), 90)
        << policy;
    EXPECT_GE(tell(law_named("block-value-sign"), policy, plain, BlockDefect::order_swapped, "dense", 20).share(), 90)
        << policy;
    EXPECT_GE(tell(law_named("block-score-sign"), policy, plain, BlockDefect::order_interleaved, "dense", 20).share(),
              90)
        << policy;
    EXPECT_GE(
        tell(law_named("block-head-permutation"), policy, plain, BlockDefect::no_transpose, "cancelling", 20).share(),
        90)
        << policy;
  }
  EXPECT_EQ(tell(law_named("block-value-power"), "f32", plain, BlockDefect::none, "dense", 20).share(), 0);
  EXPECT_GE(tell(law_named("block-value-power"), "f32", plain, BlockDefect::no_transpose, "dense", 20).share(), 90);
}

TEST(MhaLaws, ExactProbesKnowEveryBit) {
  for (const char* policy : {"f32", "f16", "bf16"})
    for (const char* numbers :
         {plain,
          R"({"lse_merge":"none","projections":["rounded","unrounded","separate"],"heads":["rounded","unrounded"]})"})
      for (const char* probe : {"uniform", "selection"}) {
        const BlockLaw& law = law_named("block-" + std::string(probe));
        const Told right = tell(law, policy, numbers, BlockDefect::none, probe, 120);
        EXPECT_EQ(right.failed, 0) << policy << ' ' << probe << ' ' << numbers;
        EXPECT_GE(right.asked, 100) << policy << ' ' << probe;
      }
  std::printf("%% of problems: policy probe | k<->v b_q b_v b_out heads gemm-16 out-gemm-16\n");
  for (const char* policy : {"f32", "f16", "bf16"})
    for (const char* probe : {"uniform", "selection"}) {
      std::printf("%s %s |", policy, probe);
      for (const BlockDefect defect :
           {BlockDefect::order_swapped, BlockDefect::no_b_q, BlockDefect::no_b_v, BlockDefect::no_b_out,
            BlockDefect::no_transpose, BlockDefect::gemm_16, BlockDefect::gemm_out_16}) {
        const Told told = tell(law_named("block-" + std::string(probe)), policy, plain, defect, probe, 60);
        std::printf(" %.0f", told.share());
        if (defect == BlockDefect::no_b_q && std::string(probe) == "uniform") continue;  // it is 0
        if (defect == BlockDefect::gemm_out_16) continue;
        EXPECT_GE(told.share(), 90) << policy << ' ' << probe << ' ' << static_cast<int>(defect);
      }
      std::printf("\n");
    }
}

// A head without keys may hold anything unless the contract says otherwise: NaN, which 0 of w_out does not take away.
TEST(MhaLaws, AHeadWithoutKeysMayBeNanInEveryColumn) {
  mha::Contract contract = mha::contract_for(mha::policy_from_text("f32"));
  const mha::Inputs inputs = mha::materialise(mha::problem_from_text(
      "b=1 l=1 m=1 e=1 heads=1 kv_heads=1 head_dim=1 dtype=f32 self=1 padding=rows biases=in weights=selection "
      "seed=1907819395754143232"));
  const auto nan_rows = [&](const mha::Inputs& of) {
    Tensor out = mha::make_out(of.problem);
    out.set(0, 0, 0, 0, std::numeric_limits<double>::quiet_NaN());
    return out;
  };
  const Tensor out = nan_rows(inputs);
  // The mean of no values is NaN, too.
  for (const EmptyRow promised : {EmptyRow::unspecified, EmptyRow::nan, EmptyRow::mean_v, EmptyRow::zero}) {
    contract.attention.empty_row = promised;
    const Verdict verdict =
        properties::check(law_named("block-selection"), BlockTrial{contract, inputs, out, nan_rows});
    EXPECT_EQ(verdict.kind == VerdictKind::fail, promised == EmptyRow::zero) << static_cast<int>(promised);
  }
}

// A block that keeps its last result, by the contents of all tensors but those of one kind, is found by the law of that
// kind alone.
TEST(MhaLaws, OfOneTensorSeeWhatIsKeptWithoutALookAtIt) {
  using Member = attest_tensor mha::Call::*;
  const std::map<std::string_view, std::vector<Member>> kinds{
      {"block-other-tokens", {&mha::Call::x, &mha::Call::memory}},
      {"block-other-weights", {&mha::Call::w_q, &mha::Call::w_k, &mha::Call::w_v, &mha::Call::w_out}},
      {"block-other-biases", {&mha::Call::b_q, &mha::Call::b_k, &mha::Call::b_v, &mha::Call::b_out}},
      {"block-other-masks", {&mha::Call::bias, &mha::Call::keep, &mha::Call::kv_lengths}}};
  const kernels::BlockEntry& block = kernels::builtin_blocks().front();
  const mha::Contract contract = block.contract(mha::policy_from_text("f32"));
  for (const auto& [not_looked_at, members] : kinds) {
    std::map<std::string_view, Told> told;
    for (std::uint64_t seed = 1; seed <= 60; ++seed) {
      mha::Problem problem = mha::problem_from_text(
          "b=2 l=5 m=8 e=16 heads=2 kv_heads=2 head_dim=8 padding=ragged bias=normal biases=all weights=dense");
      problem.packed = seed % 2;
      problem.seed = seed;
      const mha::Inputs inputs = mha::materialise(problem);
      std::vector<double> key;
      Tensor kept;
      const auto ask = [&](const mha::Inputs& of) {
        const mha::Call call = of.call(kept);
        std::vector<double> now;
        for (const auto& [kind, looked_at] : kinds)
          for (const Member member : looked_at)
            if (const attest_tensor& t = call.*member; kind != not_looked_at && attest_present(&t))
              for_each_index({t.shape, static_cast<std::size_t>(t.ndim)},
                             [&](Index a, Index b, Index c, Index d) { now.push_back(load(t, a, b, c, d)); });
        if (now != key || !kept.present()) kept = asked(of, [&](const mha::Call& made) { block.run(made, contract); });
        key = std::move(now);
        return kept.clone();
      };
      const Tensor out = ask(inputs);
      const BlockTrial trial{contract, inputs, out, ask};
      for (const auto& [name, looked_at] : kinds) {
        const Verdict verdict = properties::check(law_named(name), trial);
        ++told[name].asked;
        told[name].failed += verdict.kind == VerdictKind::fail;
        (void)ask(inputs);
      }
    }
    for (const auto& [name, seen] : told)
      if (name == not_looked_at)
        EXPECT_GE(seen.share(), 60) << name;
      else
        EXPECT_EQ(seen.failed, 0) << name << " where " << not_looked_at << " is not looked at";
  }
}

TEST(MhaLaws, MaskedTokensCountInAnEmptyRowThatIsTheMeanOfAll) {
  mha::Contract contract = mha::contract_for(mha::policy_from_text("f32"));
  contract.attention.deterministic = Deterministic::rerun;
  const mha::Problem problem = mha::problem_from_text("l=2 m=3 e=2 heads=1 kv_heads=1 head_dim=2 padding=some_zero");
  const auto reason = [&](EmptyRow rule) {
    contract.attention.empty_row = rule;
    return law_named("block-masked-tokens").not_applicable(problem, contract);
  };
  EXPECT_TRUE(reason(EmptyRow::mean_all));
  EXPECT_FALSE(reason(EmptyRow::mean_v));
}

// An exp that is off by its ulps where it is subnormal leaves 2^-24 in f16 of a key 128 nats below, which a wide out
// shows.
TEST(MhaLaws, SelectionGrantsOtherKeysAnUlpOfASubnormalWeight) {
  EXPECT_EQ(tell(law_named("block-selection"), "f32,softmax=f16", plain, BlockDefect::none, "selection", 40).asked, 0);
  EXPECT_EQ(tell(law_named("block-selection"), "f16", R"({"lse_merge":"none","exp_ulp":1024})", BlockDefect::none,
                 "selection", 40)
                .failed,
            0);
  EXPECT_GT(tell(law_named("block-selection"), "f16", plain, BlockDefect::none, "selection", 40).asked, 30);
}

// Heads whose arithmetic depends on their place differ in their last bits once they stand elsewhere: no fault, where
// both results keep the bound. One that is taken for another leaves it.
TEST(MhaLaws, HeadsMayBeComputedByTheirPlace) {
  const mha::Contract contract = mha::contract_for(mha::policy_from_text("f32"));
  const mha::Inputs inputs =
      mha::materialise(mha::problem_from_text("l=3 m=4 e=8 heads=2 kv_heads=2 head_dim=4 weights=dense seed=3"));
  for (const bool swapped : {false, true}) {
    const auto run = [&](const mha::Inputs& of) {
      return asked(of, [&](const mha::Call& call) {
        const std::uint64_t seed = attest_load(&call.w_q, 0, 0, 0, 0) == inputs.w_q.at(0, 0) ? 1 : 2;
        BlockVariant variant = emulator::draw_block_variant(contract, of.problem, seed);
        variant.defect = swapped ? BlockDefect::no_transpose : BlockDefect::none;
        emulator::run(call, contract, variant);
      });
    };
    const Tensor out = run(inputs);
    const Verdict verdict =
        properties::check(law_named("block-head-permutation"), BlockTrial{contract, inputs, out, run});
    EXPECT_EQ(verdict.kind, swapped ? VerdictKind::fail : VerdictKind::pass);
  }
}

// A sum that tensor cores of few fraction bits may cut is not exact: a unit of 8 gives -512 for -511.
TEST(MhaLaws, UniformJudgesNoSumThatTensorCoresMayCut) {
  const mha::Inputs inputs = mha::materialise(mha::problem_from_text(
      "op=mha b=1 l=1 m=1 e=2 heads=2 kv_heads=1 head_dim=2 dtype=f16 self=1 biases=in weights=uniform seed=0 "
      "edits=x[0,0,0]:0x0p+0;x[0,0,1]:0x0p+0;w_k[0,0]:0x0p+0;w_k[0,1]:0x0p+0;w_k[1,0]:0x0p+0;w_k[1,1]:0x0p+0;"
      "w_out[0,0]:0x0p+0;w_out[0,2]:0x0p+0;w_out[0,3]:0x0p+0;w_out[1,0]:0x0p+0"));
  const auto verdict = [&](const char* numbers, double second) {
    const mha::Contract contract =
        mha::contract_from_json(nlohmann::json::parse(numbers), mha::policy_from_text("f16-all"));
    const auto run = [&](const mha::Inputs& of) {
      Tensor out = mha::make_out(of.problem);
      oracle::MhaOracle exact(contract, of.call(out));
      out.set(0, 0, 0, 0, exact.enclosure(0, 0, 0, 0).y);
      out.set(0, 0, 1, 0, second);
      return out;
    };
    const Tensor out = run(inputs);
    return properties::check(law_named("block-uniform"), BlockTrial{contract, inputs, out, run}).kind;
  };
  const char *cores = R"({"lse_merge":"none","mma":{"block":8,"frac":8,"out":"e8m13","only":true}})",
             *whole = R"({"lse_merge":"none"})";
  EXPECT_NE(verdict(cores, -512), VerdictKind::fail);
  EXPECT_EQ(verdict(whole, -511), VerdictKind::pass);
  EXPECT_EQ(verdict(whole, -512), VerdictKind::fail);
}

TEST(MhaLaws, SayWhyTheyDoNotApply) {
  const mha::Contract contract = mha::contract_for(mha::policy_from_text("f32"));
  const mha::Inputs inputs = mha::materialise(mha::problem_from_text("l=2 m=2 e=4 heads=1 kv_heads=1 head_dim=4"));
  const Tensor none;
  const BlockTrial trial{contract, inputs, none, [](const mha::Inputs&) {
                           ADD_FAILURE() << "the block was asked";
                           return Tensor();
                         }};
  for (const BlockLaw& law : properties::block_laws()) {
    if (!law.not_applicable(trial.problem(), contract)) continue;  // a law of any block: one tensor with other contents
    const Verdict verdict = properties::check(law, trial);
    EXPECT_EQ(verdict.kind, VerdictKind::skip) << law.name;
    EXPECT_FALSE(verdict.reason.empty()) << law.name;
  }
}

}  // namespace
}  // namespace attest
