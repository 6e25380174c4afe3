// The laws of layer_norm: correct kernels keep each, over random problems; each applies often enough to mean something;
// and a kernel whose later answers differ in one place is found by each.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "core/directed.hpp"
#include "core/rng.hpp"
#include "kernels/layer_norm/emulated/draw.hpp"
#include "kernels/layer_norm/registry.hpp"
#include "properties/layer_norm/law.hpp"

namespace attest::properties::layer_norm {
namespace {

namespace emulated = attest::emulator::layer_norm;
namespace norm_kernels = attest::kernels::layer_norm;
using attest::layer_norm::make_out;
using attest::layer_norm::policy_from_text;

struct Tally {
  int passed = 0, skipped = 0, vacuous = 0, failed = 0;
};

// Mild and wild problems in turn: exact laws need rows whose statistics are in the middle of the range.
Problem problem_of(const Contract& contract, std::uint64_t n) {
  Problem p = emulated::draw_problem(contract, 2048, n);
  p.sum_out = false;
  if (n % 2) {
    p.values = n % 4 == 1 ? attest::layer_norm::Values::integers : attest::layer_norm::Values::uniform;
    p.amplitude = 1, p.offset = 0, p.epsilon = 1e-5;
    p.gamma = p.beta = attest::layer_norm::Weights::near;
    if (n % 8 == 3) p.hidden = 64;
  }
  return p;
}

Verdict verdict_of(const Law& law, const Contract& contract, const Problem& problem, const Ask& ask) {
  if (const auto reason = law.not_applicable(problem, contract)) return Verdict::skip(*reason);
  const Inputs inputs = materialise(problem);
  const Tensor out = ask(problem, inputs);
  return law.check({contract, problem, inputs, out, ask});
}

TEST(LayerNormLaws, CorrectKernelsKeepThem) {
  std::map<std::string_view, Tally> tallies;
  constexpr const char* policies[] = {"f32", "f16", "bf16", "f64", "f16-all", "bf16-all", "f16,affine=f16"};
  std::uint64_t n = 0;
  for (const auto& kernel : norm_kernels::builtin_kernels())
    for (const char* text : policies)
      for (int round = 0; round < 60; ++round, ++n) {
        const Contract contract = kernel.contract(policy_from_text(text));
        const Problem problem = problem_of(contract, n);
        const Ask ask = [&](const Problem& p, const Inputs& inputs) {
          Tensor out = make_out(p);
          kernel.run(inputs.call(out, {}), contract);
          return out;
        };
        for (const Law& law : laws()) {
          const Verdict verdict = verdict_of(law, contract, problem, ask);
          Tally& tally = tallies[law.name];
          tally.passed += verdict.kind == VerdictKind::pass;
          tally.skipped += verdict.kind == VerdictKind::skip;
          tally.vacuous += verdict.kind == VerdictKind::vacuous;
          tally.failed += verdict.kind == VerdictKind::fail;
          EXPECT_NE(verdict.kind, VerdictKind::fail)
              << law.name << " " << kernel.name << " " << text << " " << to_text(problem) << " got "
              << verdict.evidence->got << " expected " << verdict.evidence->expected << " at "
              << verdict.evidence->index[1];
        }
      }
  for (const Law& law : laws()) {
    const Tally& tally = tallies[law.name];
    fmt::print("{:20} kept {:5} skipped {:5} vacuous {:5}\n", law.name, tally.passed, tally.skipped, tally.vacuous);
    EXPECT_GE(tally.passed, 100) << law.name;
  }
}

// The emulator keeps contracts that the built-in kernels do not have: other forms, roots, flushing, narrow stages.
TEST(LayerNormLaws, EmulatedKernelsKeepThem) {
  std::map<std::string_view, int> passed;
  for (std::uint64_t n = 0; n < 4000; ++n) {
    Contract contract = emulated::draw_contract(n);
    contract.deterministic = Deterministic::rerun;
    contract.batch_invariant = BatchInvariance::bitwise;
    const Problem problem = problem_of(contract, n);
    emulated::Scheme scheme =
        emulated::draw_scheme(contract, problem.hidden, problem.norm == attest::layer_norm::Norm::rms, n);
    // Bits that repeat come of an order that no value decides.
    if (scheme.order > emulated::Order::shuffled) scheme.order = emulated::Order::shuffled;
    const Ask ask = [&](const Problem& p, const Inputs& inputs) {
      Tensor out = make_out(p), none;
      emulated::run(inputs, contract, scheme, out, none);
      return out;
    };
    for (const Law& law : laws()) {
      const Verdict verdict = verdict_of(law, contract, problem, ask);
      passed[law.name] += verdict.kind == VerdictKind::pass;
      EXPECT_NE(verdict.kind, VerdictKind::fail)
          << law.name << " case " << n << " " << to_text(contract.policy) << " " << to_text(problem) << " got "
          << verdict.evidence->got << " expected " << verdict.evidence->expected;
    }
  }
  for (const Law& law : laws()) EXPECT_GE(passed[law.name], 20) << law.name;
}

TEST(LayerNormLaws, EachFindsAKernelThatBreaksIt) {
  const auto& kernel = *norm_kernels::find_kernel(norm_kernels::builtin_kernels(), "fused");
  const Contract contract = kernel.contract(policy_from_text("f32"));
  for (const Law& law : laws()) {
    if (!law.asks_again) continue;
    int found = 0, applied = 0;
    for (std::uint64_t n = 1; n < 400; n += 2) {
      Problem problem = problem_of(contract, n);
      problem.rows = 2, problem.hidden = 64;
      problem.norm = attest::layer_norm::Norm::layer;
      problem.residual = attest::layer_norm::Residual::like_x;
      int calls = 0;
      const Ask ask = [&](const Problem& p, const Inputs& inputs) {
        Tensor out = make_out(p);
        kernel.run(inputs.call(out, {}), contract);
        // Every element of every later answer is one step off, or many where only a bound speaks.
        const double far = law.kind == Kind::bound ? 1 + 0x1p-10 : 1 + 0x1p-22;
        if (calls++ % 2 == 1)
          for (Index row = 0; row < p.rows; ++row)
            for (Index column = 0; column < p.hidden; ++column)
              out.set(row, column, 0, 0, out.at(row, column) * far + (law.kind == Kind::bound ? 1e-2 : 0));
        return out;
      };
      const Verdict verdict = verdict_of(law, contract, problem, ask);
      applied += verdict.kind != VerdictKind::skip;
      found += verdict.kind == VerdictKind::fail;
    }
    EXPECT_GE(applied, 20) << law.name;
    EXPECT_GE(found * 10, applied * 9) << law.name;
  }
}

// A kernel that keeps its last result, by the contents of all tensors but one, is found by the law of that tensor
// alone.
TEST(LayerNormLaws, OfOneTensorSeeWhatIsKeptWithoutALookAtIt) {
  const std::map<std::string_view, Tensor Inputs::*> tensors{{"other-x", &Inputs::x},
                                                             {"other-residual", &Inputs::residual},
                                                             {"other-gamma", &Inputs::gamma},
                                                             {"other-beta", &Inputs::beta}};
  const auto& kernel = *norm_kernels::find_kernel(norm_kernels::builtin_kernels(), "fused");
  const Contract contract = kernel.contract(policy_from_text("f32"));
  for (const auto& [not_looked_at, tensor] : tensors) {
    std::map<std::string_view, int> found;
    for (std::uint64_t seed = 1; seed <= 60; ++seed) {
      Problem problem = attest::layer_norm::problem_from_text("rows=3 hidden=24 gamma=near beta=near residual=like_x");
      problem.seed = seed;
      std::vector<double> key;
      Tensor kept;
      const Ask ask = [&](const Problem& p, const Inputs& inputs) {
        std::vector<double> now;
        for (const auto& [name, looked_at] : tensors)
          if (name != not_looked_at)
            for_each_index((inputs.*looked_at).shape(),
                           [&](Index a, Index b, Index, Index) { now.push_back((inputs.*looked_at).at(a, b)); });
        if (now != key || !kept.present()) {
          kept = make_out(p);
          kernel.run(inputs.call(kept, {}), contract);
        }
        key = std::move(now);
        return kept.clone();
      };
      for (const auto& [name, looked_at] : tensors)
        found[name] += verdict_of(*find_law(name), contract, problem, ask).kind == VerdictKind::fail;
    }
    for (const auto& [name, times] : found)
      if (name == not_looked_at)
        EXPECT_GE(times, 50) << name;
      else
        EXPECT_EQ(times, 0) << name << " where " << not_looked_at << " is not looked at";
  }
}

// Faults that leave the problem itself in its intervals, and are found once its numbers have moved.
TEST(LayerNormLaws, MovedNumbersShowWhatTheProblemHides) {
  const struct {
    const char *law, *problem;
    emulated::Defect defect;
  } planted[] = {
      {"shifted-bound", "rows=2 hidden=256", emulated::Defect::one_pass},
      {"channels-permuted-bound", "rows=1 hidden=1024 values=one_hot", emulated::Defect::last_element_missed},
  };
  const Contract contract = attest::layer_norm::contract_for(policy_from_text("f32"));
  for (const auto& p : planted) {
    const Law& law = *find_law(p.law);
    int hidden = 0, found = 0;
    for (std::uint64_t n = 1; n <= 40; ++n) {
      Problem problem = attest::layer_norm::problem_from_text(p.problem);
      problem.seed = n;
      emulated::Scheme scheme;
      const Ask ask = [&](const Problem& asked, const Inputs& inputs) {
        Tensor out = make_out(asked), none;
        emulated::run(inputs, contract, scheme, out, none);
        return out;
      };
      const Verdict sound = verdict_of(law, contract, problem, ask);
      EXPECT_NE(sound.kind, VerdictKind::fail) << p.law << " " << to_text(problem);
      scheme.defect = p.defect;
      const Inputs inputs = materialise(problem);
      const Tensor out = ask(problem, inputs);
      hidden += oracle::layer_norm::LayerNormOracle(contract, problem, inputs).judge(out, {}).kind != VerdictKind::fail;
      found += verdict_of(law, contract, problem, ask).kind == VerdictKind::fail;
    }
    fmt::print("{}: {} of 40 kept their intervals, {} found once moved\n", p.law, hidden, found);
    EXPECT_GE(hidden, 36) << p.law;
    EXPECT_GE(found, 15) << p.law;
  }
}

// r gamma, x r gamma or m r gamma among the subnormal numbers lose bits that a power of two gives back, where out
// itself is normal or none of it is left: a kernel that makes them first is not blamed. Normal ones are compared, and a
// step is found.
TEST(LayerNormLaws, PowersOfTwoLeaveSubnormalProductsAlone) {
  struct Case {
    const char *law, *policy, *form, *problem;
    bool compared;
  };
  const Case cases[] = {
      {"scaled", "f32", "weighted_scale", "rows=1 hidden=2 gamma=tiny beta=none values=integers seed=0", false},
      {"scaled", "f32", "folded", "rows=1 hidden=1 gamma=tiny beta=tiny values=normal seed=0 rows0=6", false},
      {"params-scaled", "f32,statistics=f64", "weighted_scale",
       "rows=1 hidden=1 norm=rms gamma=normal beta=none values=huge seed=0", false},
      {"scaled", "f32", "weighted_scale", "rows=1 hidden=2 gamma=near beta=none values=integers seed=0", true},
      {"scaled", "f32", "folded", "rows=1 hidden=4 gamma=near beta=near values=integers seed=0", true},
      {"params-scaled", "f32,statistics=f64", "weighted_scale", "rows=1 hidden=2 norm=rms gamma=near beta=none seed=0",
       true},
      {"params-scaled", "f32", "folded", "rows=1 hidden=4 gamma=near beta=near values=uniform seed=0", true},
  };
  for (const Case& one : cases) {
    Contract contract = attest::layer_norm::contract_for(policy_from_text(one.policy));
    contract.arithmetic.form = std::string_view(one.form) == "folded" ? attest::layer_norm::NormForm::folded
                                                                      : attest::layer_norm::NormForm::weighted_scale;
    contract.arithmetic.rsqrt_ulp = 0.5;
    contract.deterministic = Deterministic::rerun;
    const Problem problem = attest::layer_norm::problem_from_text(one.problem);
    for (const bool wrong : {false, true}) {
      int calls = 0;
      const Ask ask = [&](const Problem& p, const Inputs& inputs) {
        Tensor out = make_out(p), none;
        emulated::run(inputs, contract, emulated::Scheme{}, out, none);
        if (wrong && calls++ == 1)
          for (Index column = 0; column < p.hidden; ++column)
            out.set(0, column, 0, 0, out.at(0, column) * (1 + 0x1p-22));
        return out;
      };
      const VerdictKind kind = verdict_of(*find_law(one.law), contract, problem, ask).kind;
      if (wrong && one.compared)
        EXPECT_EQ(kind, VerdictKind::fail) << one.law << ' ' << one.form;
      else
        EXPECT_EQ(kind, one.compared ? VerdictKind::pass : VerdictKind::vacuous)
            << one.law << ' ' << one.form << ' ' << one.problem;
    }
  }
}

// Rows with each element in its interval where the mean may be far off, and no mean explains all: 16 rows of 1,024 at a
// mean of 10,000 deviations, sums of at most 40 additions. Kernels that keep their contract, in any order, are
// explained.
TEST(LayerNormLaws, OneMeanExplainsARow) {
  const Law& law = *find_law("shared-mean");
  Contract contract = attest::layer_norm::contract_for(policy_from_text("f32"));
  contract.arithmetic.depth = Index{40};
  for (const auto defect : {emulated::Defect::none, emulated::Defect::count_less_one, emulated::Defect::root_off}) {
    int hidden = 0, found = 0;
    for (std::uint64_t n = 1; n <= 12; ++n) {
      Problem problem =
          attest::layer_norm::problem_from_text("rows=16 hidden=1024 gamma=near beta=near epsilon=1e-5 offset=10000");
      problem.seed = n;
      emulated::Scheme scheme;
      scheme.shape = emulated::Shape::dealt;
      scheme.lanes = 32;
      scheme.fma = n % 2 == 0;
      scheme.defect = defect;
      const Ask ask = [&](const Problem& asked, const Inputs& inputs) {
        Tensor out = make_out(asked), none;
        emulated::run(inputs, contract, scheme, out, none);
        return out;
      };
      const Inputs inputs = materialise(problem);
      const Tensor out = ask(problem, inputs);
      hidden += oracle::layer_norm::LayerNormOracle(contract, problem, inputs).judge(out, {}).kind != VerdictKind::fail;
      found += verdict_of(law, contract, problem, ask).kind == VerdictKind::fail;
    }
    fmt::print("defect {}: {} of 12 kept their intervals, no mean explains {}\n", static_cast<int>(defect), hidden,
               found);
    EXPECT_EQ(hidden, 12);
    EXPECT_EQ(found, defect == emulated::Defect::none ? 0 : 12);
  }
}

}  // namespace
}  // namespace attest::properties::layer_norm
