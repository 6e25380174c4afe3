#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "tests/kernels/support.hpp"

namespace attest::kernels::test {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

struct Scenario {
  const char* fault;
  Problem triggers;  // differs from the parent here
  Problem harmless;  // agrees to the bit here, although every value is as rich
};

Problem with(void (*change)(Problem&)) {
  Problem problem = problem_from_text("b=2 hq=2 hkv=2 lq=5 lk=70 d=4 dv=4 seed=7");
  change(problem);
  return problem;
}

const Scenario scenarios[] = {
    {"scale-missing", with([](Problem&) {}), with([](Problem& p) { p.scale = 1; })},
    {"scale-twice", with([](Problem&) {}), with([](Problem& p) { p.scale = 1; })},
    {"scale-on-value", with([](Problem&) {}), with([](Problem& p) { p.scale = 1; })},
    {"causal-corner", with([](Problem& p) { p.causal = true; }),
     with([](Problem& p) { p.causal = true, p.lq = p.lk; })},
    {"mask-finite", with([](Problem& p) { p.keep = Keep::some_empty; }),
     with([](Problem& p) { p.keep = Keep::prefix; })},
    {"mask-lowest-infinite", with([](Problem& p) { p.bias = Bias::empty_lowest; }),
     with([](Problem& p) { p.bias = Bias::minus_1e4; })},
    {"row-lowest-empty", with([](Problem& p) { p.bias = Bias::empty_lowest; }),
     with([](Problem& p) { p.bias = Bias::empty_inf; })},
    {"row-empty-nan", with([](Problem& p) { p.keep = Keep::some_empty; }),
     with([](Problem& p) { p.keep = Keep::one; })},
    {"tail-included", with([](Problem&) {}), with([](Problem& p) { p.lk = 128; })},
    {"rescale-missing", with([](Problem& p) { p.values = Values::rising; }),
     with([](Problem& p) { p.values = Values::falling; })},
    {"qk-acc-f16", with([](Problem&) {}), with([](Problem& p) { p.values = Values::integers; })},
    {"batch-leak", with([](Problem&) {}), with([](Problem& p) { p.v_layout = Layout::broadcast_batch; })},
    {"batch-path", with([](Problem&) {}), with([](Problem& p) { p.b = 1; })},
    {"batch-split", with([](Problem&) {}), with([](Problem& p) { p.b = 1; })},
    {"strides-ignored", with([](Problem& p) { p.k_layout = Layout::bshd; }),
     with([](Problem& p) { p.k_layout = Layout::odd_base; })},
    {"scale-default-kept", with([](Problem& p) { p.scale = 2; }), with([](Problem& p) { p.scale = 0.5; })},
    {"window-off-by-one", with([](Problem& p) { p.window_left = 1; }), with([](Problem& p) { p.window_right = 1; })},
    {"mask-dropped", with([](Problem& p) { p.keep = Keep::half, p.lq = 1; }),
     with([](Problem& p) { p.keep = Keep::half; })},
    {"padding-right-only", with([](Problem& p) { p.keep = Keep::suffix; }),
     with([](Problem& p) { p.keep = Keep::prefix; })},
    {"kv-length-ignored", with([](Problem& p) { p.lengths = Lengths::one; }),
     with([](Problem& p) { p.lengths = Lengths::full; })},
    {"value-zero-masked", with([](Problem& p) { p.v_form = Form::zero, p.lse = LseOutput::f32; }),
     with([](Problem& p) { p.v_form = Form::one; })},
    {"tail-dropped", with([](Problem& p) { p.lk = 70; }), with([](Problem& p) { p.lk = 128; })},
    {"rescale-tail", with([](Problem& p) { p.values = Values::rising; }),
     with([](Problem& p) { p.values = Values::rising, p.dv = 8; })},
    {"max-init-zero", with([](Problem& p) { p.values = Values::negative, p.amplitude = 8; }),
     with([](Problem& p) { p.values = Values::rising; })},
    {"lse-wrong-base", with([](Problem& p) { p.lse = LseOutput::f32; }),
     with([](Problem& p) { p.lse = LseOutput::none; })},
    {"lse-empty", with([](Problem& p) { p.keep = Keep::closed, p.lse = LseOutput::f32; }),
     with([](Problem& p) { p.keep = Keep::one, p.lse = LseOutput::f32; })},
    {"split-merge", with([](Problem& p) { p.lk = 70; }), with([](Problem& p) { p.lk = 16; })},
    {"batch-mask", with([](Problem& p) { p.keep = Keep::half; }),
     with([](Problem& p) { p.keep = Keep::half, p.keep_axes = 14; })},
    {"gqa-modulo", with([](Problem& p) { p.hq = 4; }), with([](Problem& p) { p.hkv = 1; })},
    {"unwritten", with([](Problem& p) { p.lq = 5; }), with([](Problem& p) { p.lq = 4; })},
    {"oob-read", with([](Problem&) {}), with([](Problem& p) { p.lk = 128; })},
    {"softcap-after-bias", with([](Problem& p) { p.softcap = 2, p.bias = Bias::normal; }),
     with([](Problem& p) { p.softcap = 2; })},
    {"causal-off-by-one", with([](Problem& p) { p.causal = true; }), with([](Problem& p) { p.keep = Keep::prefix; })},
    {"pv-acc-f16", with([](Problem&) {}), with([](Problem& p) { p.keep = Keep::one, p.values = Values::integers; })},
    {"bits-dropped", with([](Problem& p) { p.d = 256, p.lse = LseOutput::f32; }),
     with([](Problem& p) { p.keep = Keep::one, p.values = Values::integers; })},
    {"query-floor", with([](Problem& p) { p.scale = 0.3, p.lse = LseOutput::f32; }),
     with([](Problem& p) { p.scale = 0.5, p.lse = LseOutput::f32; })},
    {"output-clamped", with([](Problem&) {}), with([](Problem& p) { p.values = Values::flat; })},
    {"thread-split", with([](Problem& p) { p.threads = 1; }), with([](Problem& p) { p.threads = 4; })},
    {"masked-read", with([](Problem& p) {
       p.causal = true, p.edits = {{Edit::Tensor::v, {0, 0, 10, 0}, nan}};
     }),
     with([](Problem& p) { p.causal = true; })},
    {"nan-masked", with([](Problem& p) {
       p.edits = {{Edit::Tensor::k, {0, 0, 10, 0}, nan}};
     }),
     with([](Problem& p) {
       p.edits = {{Edit::Tensor::v, {0, 0, 10, 0}, nan}};
     })},
    {"form-scale-default", with([](Problem& p) {
       p.scale = 2, p.forms = {{"scale", "query"}};
     }),
     with([](Problem& p) {
       p.scale = 2, p.forms = {{"scale", "key"}};
     })},
    {"scale-sqrt-once", with([](Problem&) {}), with([](Problem& p) { p.scale = 1; })},
    {"scale-embed-dim", with([](Problem&) {}), with([](Problem& p) { p.scale = 0.5; })},
    {"scale-after-mask", with([](Problem& p) { p.bias = Bias::normal; }),
     with([](Problem& p) { p.bias = Bias::normal, p.scale = 1; })},
    {"scale-log2e", with([](Problem& p) { p.bias = Bias::normal; }),
     with([](Problem& p) { p.bias = Bias::minus_inf; })},
    {"mask-multiply", with([](Problem& p) { p.keep = Keep::half; }), with([](Problem& p) { p.keep = Keep::open; })},
    {"mask-bool-coerced", with([](Problem& p) { p.bias = Bias::normal; }),
     with([](Problem& p) { p.bias = Bias::minus_inf; })},
    {"rescale-sum-only", with([](Problem& p) { p.values = Values::rising; }),
     with([](Problem& p) { p.values = Values::falling; })},
    {"max-first-tile", with([](Problem& p) { p.values = Values::rising; }),
     with([](Problem& p) { p.values = Values::falling; })},
    {"no-max-subtraction", with([](Problem&) {}), with([](Problem& p) { p.q_form = Form::zero; })},
    {"softmax-f16", with([](Problem&) {}), with([](Problem& p) { p.q_form = Form::zero; })},
    {"sum-overflow-f16", with([](Problem& p) { p.lk = 65'520, p.lq = 1, p.values = Values::constant; }),
     with([](Problem& p) { p.lk = 65'519, p.lq = 1, p.values = Values::constant; })},
    {"partials-bf16", with([](Problem&) {}), with([](Problem& p) { p.keep = Keep::one, p.values = Values::integers; })},
    {"scores-overflow-f16", with([](Problem& p) { p.amplitude = 200; }), with([](Problem&) {})},
    {"p-unnormalised-flush", with([](Problem& p) { p.values = Values::falling, p.amplitude = 8; }),
     with([](Problem& p) { p.values = Values::flat; })},
    {"convert-truncates", with([](Problem&) {}), with([](Problem& p) { p.keep = Keep::one; })},
    {"exp-poor", with([](Problem&) {}), with([](Problem& p) { p.keep = Keep::one; })},
    {"layout-swapped", with([](Problem& p) { p.k_layout = Layout::bshd; }),
     with([](Problem& p) { p.k_layout = Layout::padded_rows; })},
    {"alignment-assumed", with([](Problem& p) { p.d = 8, p.k_layout = Layout::odd_base; }),
     with([](Problem& p) { p.d = 8; })},
    {"oob-write", with([](Problem&) {}), with([](Problem& p) { p.lq = 4; })},
    {"input-modified", with([](Problem& p) { p.lengths = Lengths::one; }),
     with([](Problem& p) { p.lengths = Lengths::full; })},
    {"softcap-dropped", with([](Problem& p) { p.softcap = 2; }), with([](Problem& p) { p.bias = Bias::normal; })},
    {"bias-broadcast", with([](Problem& p) { p.bias = Bias::normal; }),
     with([](Problem& p) { p.bias = Bias::normal, p.bias_axes = 13; })},
    {"alibi-offset", with([](Problem& p) { p.bias = Bias::alibi; }),
     with([](Problem& p) { p.bias = Bias::alibi, p.lq = p.lk; })},
};

// Faults that depend on the calls before, so that no single problem shows them.
constexpr std::string_view remembering[] = {"race", "state-kept"};

// Faults that write to the wrong place.
constexpr std::string_view miswriting[] = {"unwritten", "oob-write", "input-modified"};

bool remembers(const KernelEntry& faulty) { return std::ranges::count(remembering, faulty.name) > 0; }

TEST(Faults, ARaceChangesBitsFromCallToCall) {
  const Problem problem = problem_from_text("lq=5 lk=70 d=4 dv=4 seed=7");
  const Policy policy(Format::f32);
  const Result first = run(fault("race"), problem, policy), second = run(fault("race"), problem, policy);
  EXPECT_FALSE(same(first, second));
  EXPECT_TRUE(same(run(fault("race"), problem, policy), first));
}

TEST(Faults, KeptStateShowsInTheCallAfterTheNext) {
  const Problem x = problem_from_text("lq=5 lk=70 d=4 dv=4 seed=7");
  Problem y = x;
  y.seed = 8;
  const Policy policy(Format::f32);
  const Result right = run(builtin("fused"), x, policy);
  const KernelEntry& kept = fault("state-kept");
  EXPECT_TRUE(same(run(kept, x, policy), right));
  EXPECT_TRUE(same(run(kept, x, policy), right));
  EXPECT_TRUE(same(run(kept, y, policy), run(builtin("fused"), y, policy)));
  EXPECT_FALSE(same(run(kept, x, policy), right));
}

TEST(Faults, EachDiffersFromItsParentWhereItActsAndNowhereElse) {
  for (const Scenario& scenario : scenarios) {
    const KernelEntry& faulty = fault(scenario.fault);
    const KernelEntry& parent = builtin(faulty.parent);
    for (const Format dtype : {Format::f32, Format::f16, Format::bf16}) {
      Problem triggers = scenario.triggers, harmless = scenario.harmless;
      triggers.dtype = harmless.dtype = dtype;
      const Policy policy = policy_for(dtype);
      EXPECT_TRUE(same(run(faulty, harmless, policy), run(parent, harmless, policy)))
          << faulty.name << ' ' << name(dtype);
      if (faulty.name == "batch-path" && dtype == Format::bf16) continue;        // nothing narrower than bf16 weights
      if (faulty.name == "convert-truncates" && dtype == Format::f32) continue;  // nothing to convert
      EXPECT_FALSE(same(run(faulty, triggers, policy), run(parent, triggers, policy)))
          << faulty.name << ' ' << name(dtype);
    }
  }
}

TEST(Faults, EachHasAScenarioAReportAParentAndItsParentsPromises) {
  EXPECT_EQ(fault_kernels().size(), std::size(scenarios) + std::size(remembering));
  for (const KernelEntry& faulty : fault_kernels()) {
    EXPECT_TRUE(remembers(faulty) ||
                std::ranges::any_of(scenarios, [&](const Scenario& s) { return s.fault == faulty.name; }))
        << faulty.name;
    EXPECT_FALSE(faulty.report.empty()) << faulty.name;
    EXPECT_FALSE(faulty.doc.empty()) << faulty.name;
    const KernelEntry& parent = builtin(faulty.parent);
    for (const NamedPolicy& named : named_policies())
      EXPECT_EQ(faulty.contract(named.policy), parent.contract(named.policy)) << faulty.name;
  }
}

TEST(Faults, EachRepeatsItsBitsAndWritesWhereItMay) {
  for (const KernelEntry& faulty : fault_kernels()) {
    if (remembers(faulty) || std::ranges::count(miswriting, faulty.name) > 0) continue;
    for (std::uint64_t seed = 0; seed < 60; ++seed) {
      Problem problem = random_problem(seed, Format::f32);
      problem.threads = 1;
      const Result once = run(faulty, problem, Policy(Format::f32));
      problem.threads = faulty.name == "thread-split" ? 1 : 2;
      EXPECT_TRUE(once.intact) << faulty.name;
      EXPECT_TRUE(same(run(faulty, problem, Policy(Format::f32)), once)) << faulty.name << ' ' << to_text(problem);
    }
  }
}

}  // namespace
}  // namespace attest::kernels::test
