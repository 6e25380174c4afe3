// All laws on real kernels and drawn problems: none fails for a kernel that keeps its contract, and for each planted
// fault the law made for it does.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "core/problem.hpp"
#include "generators/domain.hpp"
#include "generators/draw.hpp"
#include "kernels/registry.hpp"
#include "properties/property.hpp"
#include "properties/trial.hpp"
#include "tests/properties/fake.hpp"

namespace attest {
namespace {

using properties::Property;
using properties::Trial;

const char* const policies[] = {"f32", "f16", "bf16", "f64", "f16-all", "bf16-all", "f16-acc16", "f32,operand=bf16"};

// A kernel of ours under one contract.
class Ours : public test::Fake {
 public:
  Ours(const kernels::KernelEntry& kernel, const Contract& contract)
      : Fake([&kernel, contract](const attest_attention& call) { kernel.run(call, contract); },
             std::string(kernel.name)) {
    if (kernel.forms != nullptr) edit().supports.forms = kernel.forms();
  }
};

const kernels::KernelEntry& kernel_named(std::span<const kernels::KernelEntry> kernels, std::string_view name) {
  const kernels::KernelEntry* kernel = kernels::find_kernel(kernels, name);
  if (!kernel) throw std::logic_error("no kernel " + std::string(name));
  return *kernel;
}

Verdict verdict_of(const Property& law, Trial& trial) {
  if (auto reason = law.not_applicable(trial.problem(), trial.contract(), trial.subject().info()))
    return Verdict::skip(*reason);
  return law.check(trial);
}

// Laws that have nothing to say about a kernel's contract: it is the peer, its weights round with an lse, it claims
// less.
struct Inapplicable {
  std::string_view law, kernel;
};
constexpr Inapplicable inapplicable[] = {{"fused-equals-explicit", "explicit"},
                                         {"mean", "explicit-lse"},
                                         {"batch-bitwise", "fused-batch-split"},
                                         {"lone-key", "fused-exp2"}};

class Conforming : public testing::TestWithParam<std::size_t> {};

TEST_P(Conforming, KeepsEveryLaw) {
  const kernels::KernelEntry& kernel = kernels::builtin_kernels()[GetParam()];
  const kernels::KernelEntry& peer_kernel = kernel_named(kernels::builtin_kernels(), "explicit");
  std::map<std::string_view, int> passed;
  for (const char* policy : policies) {
    Contract contract = kernel.contract(policy_from_text(policy));
    const std::optional<BatchInvariance> promised = contract.batch_invariant;
    const Domain domain(Supports{}, {contract.policy[Stage::storage]});
    for (std::uint64_t number = 0; number < 96; ++number) {
      // Half of the time without the claim that leaves batch-bounded nothing to say.
      contract.batch_invariant = number % 2 ? BatchInvariance::bounded : promised;
      const Problem problem = draw_problem(domain, 17 + GetParam(), number, 1, 80);
      Ours subject(kernel, contract), peer(peer_kernel, contract);
      Trial trial(problem, contract, subject, &peer);
      for (const Property& law : properties::properties()) {
        const Verdict verdict = verdict_of(law, trial);
        passed[law.name] += verdict.kind == VerdictKind::pass;
        EXPECT_FALSE(is_finding(verdict.kind))
            << law.name << " on " << kernel.name << " under " << policy << ": " << to_text(problem) << "\n"
            << verdict.evidence->tensor << " got " << verdict.evidence->got << " expected "
            << verdict.evidence->expected << " " << verdict.evidence->note;
      }
    }
  }
  for (const Property& law : properties::properties()) {
    const bool in_one_form = law.name == "other-form" && kernel.forms == nullptr;
    const bool applies = !in_one_form && std::ranges::none_of(inapplicable, [&](const Inapplicable& never) {
      return never.law == law.name && never.kernel == kernel.name;
    });
    EXPECT_EQ(applies, passed[law.name] > 0) << law.name << " on " << kernel.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, Conforming, testing::Range<std::size_t>(0, kernels::builtin_kernels().size()),
                         [](const auto& info) {
                           std::string name(kernels::builtin_kernels()[info.param].name);
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

TEST(Faults, AreFoundByTheLawsMadeForThem) {
  const struct {
    const char* fault;
    const char* law;
  } expected[] = {
      {"batch-leak", "batch-values"},
      {"batch-leak", "batch-bitwise"},
      {"batch-path", "batch-bitwise"},
      {"batch-split", "batch-bitwise"},
      {"scale-missing", "scale-power"},
      {"scale-twice", "scale-power"},
      {"scale-on-value", "scale-power"},
      {"causal-corner", "hard-selection"},
      {"mask-finite", "masked-contents"},
      {"row-empty-nan", "result-class"},
      {"tail-included", "hard-selection"},
      {"rescale-missing", "hard-selection"},
      {"qk-acc-f16", "policy-bound"},
      {"strides-ignored", "layout"},
      {"oob-read", "result-class"},
      {"softcap-after-bias", "policy-bound"},
      {"scale-on-value", "fused-equals-explicit"},
      {"causal-off-by-one", "causal-prefix"},
      {"thread-split", "threads"},
      {"masked-read", "nonfinite-masked"},
      {"nan-masked", "nonfinite-attended"},
      {"output-clamped", "value-sign"},
      {"pv-acc-f16", "value-power"},
      {"query-floor", "qk-sign"},
      {"query-floor", "qk-flip"},
      {"scale-on-value", "single-key"},
      {"tail-included", "single-key"},
      {"tail-included", "mean"},
      {"oob-write", "guards"},
      {"input-modified", "guards"},
      {"layout-swapped", "layout"},
      {"alignment-assumed", "layout"},
      {"mask-multiply", "masked-contents"},
      {"no-max-subtraction", "score-shift"},
      {"rescale-sum-only", "constant-value"},
      {"max-first-tile", "hard-selection"},
      {"form-scale-default", "other-form"},
  };
  for (const auto& [name, law_name] : expected) {
    const kernels::KernelEntry& fault = kernel_named(kernels::fault_kernels(), name);
    const Property& law = *properties::find_property(law_name);
    const Contract contract = fault.contract(policy_from_text("f32"));
    const Domain domain(Supports{}, {Format::f32});
    bool found = false;
    for (std::uint64_t number = 0; number < 400 && !found; ++number) {
      Ours subject(fault, contract), peer(kernel_named(kernels::builtin_kernels(), "explicit"), contract);
      Trial trial(draw_problem(domain, 3, number, 1, 70), contract, subject, &peer);
      found = verdict_of(law, trial).kind == VerdictKind::fail;
    }
    EXPECT_TRUE(found) << law_name << " never finds " << name;
  }
}

}  // namespace
}  // namespace attest
