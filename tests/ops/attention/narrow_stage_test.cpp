// The law narrow-stage tells each stage of attention that is narrower than promised, at people's sizes, and blames no
// kernel that keeps its contract, whatever end of it.
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "core/rng.hpp"
#include "kernels/emulated/contracts.hpp"
#include "ops/op.hpp"
#include "probed.hpp"
#include "tests/ops/narrow_stage.hpp"

namespace attest {
namespace {

using test::Probed;

test::AskedNarrowStage ask(Probed& subject, int problems) {
  return test::ask_narrow_stage(*ops::all_ops().front(), subject, problems);
}

// ---- kernels that do not keep their word ----------------------------------------------------------------------------

struct Lie {
  Format dtype;
  Stage stage;
  Format real;
};
std::vector<Lie> lies() {
  std::vector<Lie> all;
  for (const Format dtype : {Format::f32, Format::f16, Format::bf16})
    for (std::size_t n = 1; n < stage_count; ++n)
      for (const Format real : {Format::f16, Format::bf16})
        if (const auto stage = static_cast<Stage>(n); !ops::holds(real, policy_for(dtype)[stage]))
          all.push_back({dtype, stage, real});
  return all;
}

// Why the bound permits it, whatever the inputs.
const std::set<std::string> undetectable{
    "f16,partial=f16",    // weights are rounded to as many bits
    "bf16,partial=bf16",  // likewise
    "bf16,operand=f16",   // no kernel here rounds it so
};

TEST(AttentionNarrowStage, TellsEachStageAtUsualSizes) {
  for (const Lie& lie : lies()) {
    const bool splits = lie.stage == Stage::partial;
    const kernels::KernelEntry& kernel =
        *kernels::find_kernel(kernels::builtin_kernels(), splits ? "fused-split" : "explicit");
    const Contract promise = kernel.contract(policy_for(lie.dtype));
    Policy real = promise.policy;
    real.set(lie.stage, lie.real);
    Probed subject(promise, test::kernel_answer(kernel, kernel.contract(real)));
    Supports& s = subject.said().supports;
    s.b = s.hq = s.hkv = s.lq = {1, 1, 1};
    s.d = s.dv = {64, 256, 64};
    s.lk = {512, 1024, 1};
    const std::string what =
        std::string(name(lie.dtype)) + "," + std::string(name(lie.stage)) + "=" + std::string(name(lie.real));
    const test::AskedNarrowStage result = ask(subject, 400);
    EXPECT_EQ(result.failed > 0, !undetectable.contains(what))
        << what << ", " << result.asked << " asked: " << result.first;
  }
}

// ---- kernels that do ------------------------------------------------------------------------------------------------

TEST(AttentionNarrowStage, LeavesEveryBuiltinVariantAlone) {
  for (const kernels::KernelEntry& kernel : kernels::builtin_kernels())
    for (const NamedPolicy& named : named_policies()) {
      const Contract contract = kernel.contract(named.policy);
      Probed subject(contract, test::kernel_answer(kernel, contract));
      const test::AskedNarrowStage result = ask(subject, 40);
      EXPECT_EQ(result.failed, 0) << kernel.name << " " << named.name << ": " << result.first;
      EXPECT_GT(result.asked, 0) << kernel.name << " " << named.name;
    }
}

// Any order, tiles, splits, place of the scale, block of a tensor core, and error of a function that a contract
// permits.
TEST(AttentionNarrowStage, LeavesEmulatedKernelsAtTheirEndsAlone) {
  constexpr std::uint64_t kernels_tried = 60;
  const Format formats[] = {Format::f32, Format::f16, Format::bf16, Format::tf32};
  for (std::uint64_t n = 0; n < kernels_tried; ++n) {
    Policy policy = policy_for(formats[n % 3]);
    std::uint64_t key = mix(n + 44);
    if (n % 2 == 1)  // some stages narrower
      for (const Stage stage :
           {Stage::operand, Stage::scale, Stage::qk, Stage::score, Stage::softmax, Stage::weights, Stage::pv})
        if (((key = mix(key)) & 3) == 0) policy.set(stage, formats[below(mix(key), std::size(formats))]);
    const Contract contract =
        emulator::draw_any_contract(policy, static_cast<int>(below(mix(key + 1), emulator::all_variants)));
    Probed subject(contract, test::emulated_answer(contract, n));
    subject.said().supports.lk.max = 256;  // it is slow
    subject.said().supports.d.max = subject.said().supports.dv.max = 64;
    subject.said().supports.b.max = subject.said().supports.hq.max = subject.said().supports.lq.max = 4;
    const test::AskedNarrowStage result = ask(subject, 30);
    EXPECT_EQ(result.failed, 0) << "kernel " << n << " of " << to_text(contract.policy) << ": " << result.first;
    EXPECT_GT(result.asked, 0) << n;
  }
}

}  // namespace
}  // namespace attest
