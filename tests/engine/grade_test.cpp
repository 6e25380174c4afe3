#include "engine/grade/grade.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <mutex>
#include <set>

#include <nlohmann/json.hpp>
#include "core/inputs.hpp"
#include "core/layer_norm/call.hpp"
#include "core/layer_norm/inputs.hpp"
#include "core/tensor.hpp"
#include "engine/check.hpp"
#include "engine/grade/emulated.hpp"
#include "engine/grade/parts.hpp"
#include "engine/grade/rules.hpp"
#include "engine/grade/watched.hpp"
#include "engine/stream.hpp"
#include "ops/attention.hpp"
#include "ops/layer_norm.hpp"
#include "ops/mha.hpp"
#include "subjects/builtin.hpp"
#include "subjects/builtin_emulated.hpp"
#include "tests/engine/fake_subject.hpp"

namespace attest::engine {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
using Numbers = std::vector<double>;

double least(std::string_view rule, const Numbers& got, const Numbers& expected, const Numbers& low,
             Format type = Format::f16) {
  for (const ToleranceRule& each : tolerance_rules())
    if (each.name == rule) return each.least_multiple({type, got, expected, expected, low});
  ADD_FAILURE() << "there is no rule " << rule;
  return nan;
}

// Each expected multiple is worked out by hand from the published formula.
TEST(Rules, AssertCloseAddsItsTolerances) {
  EXPECT_NEAR(least("assert_close", {1.000505}, {1}, {1}), 0.5, 1e-9);  // 1e-5 + 1e-3
  EXPECT_NEAR(least("assert_close", {1.00202}, {1}, {1}), 2, 1e-9);
  EXPECT_NEAR(least("assert_close", {1 + 2.26e-5}, {1}, {1}, Format::f32), 2, 1e-6);    // 1e-5 + 1.3e-6
  EXPECT_NEAR(least("assert_close", {1 + 0.032020}, {1}, {1}, Format::bf16), 2, 1e-9);  // 1e-5 + 1.6e-2
  EXPECT_NEAR(least("assert_close", {0, 2e-5}, {0, 0}, {0, 0}), 2, 1e-9);               // the worst element decides
}

TEST(Rules, TwiceTheErrorOfTheLowPrecisionReference) {
  EXPECT_NEAR(least("2x", {1.15, 2}, {1, 2}, {1, 2.1}), 0.75, 1e-9);
  EXPECT_NEAR(least("2x", {1, 2.25}, {1, 2}, {1.1, 2}), 1.25, 1e-9);
  EXPECT_EQ(least("2x", {1}, {1}, {1}), 0);
  EXPECT_EQ(least("2x", {1.001}, {1}, {1}), any_multiple);  // a reference without error permits none
  EXPECT_EQ(least("2x", {1}, {1}, {nan}), any_multiple);    // nothing is at most NaN
}

TEST(Rules, FiveTimesTheErrorOrOneInAHundredThousand) {
  EXPECT_NEAR(least("fudge", {1.04}, {1}, {0.99}), 0.8, 1e-9);
  EXPECT_NEAR(least("fudge", {1.06}, {1}, {0.99}), 1.2, 1e-9);
  EXPECT_NEAR(least("fudge", {1 + 5e-6}, {1}, {1}), 0.5, 1e-6);
  EXPECT_EQ(least("fudge", {nan}, {1}, {1}), any_multiple);
  EXPECT_EQ(least("fudge", {nan}, {1}, {nan}), 0);  // as published, a NaN beside a NaN is accepted
}

TEST(Rules, NormalisedMeanSquareError) {
  EXPECT_NEAR(least("nmse", {1, 1}, {1.02, 1}, {1, 1}), 0.4, 1e-9);  // 4e-4 of 2 * 5e-4
  EXPECT_NEAR(least("nmse", {1, 1}, {1.05, 1}, {1, 1}), 2.5, 1e-9);
  EXPECT_EQ(least("nmse", {0, 0}, {0, 0}, {0, 0}), 0);
  EXPECT_EQ(least("nmse", {0, 0}, {0, 1}, {0, 0}), any_multiple);
}

TEST(Rules, OnePerCent) {
  EXPECT_NEAR(least("1e-2", {1.01}, {1}, {1}), 0.5, 1e-9);
  EXPECT_NEAR(least("1e-2", {1.03}, {1}, {1}), 1.5, 1e-9);
}

TEST(Rules, PolygraphyAcceptsAnElementThatKeepsEitherTolerance) {
  EXPECT_NEAR(least("polygraphy", {1000.005}, {1000}, {0}), 0.5, 1e-6);  // the relative one
  EXPECT_NEAR(least("polygraphy", {6e-6}, {1e-6}, {0}), 0.5, 1e-6);      // the absolute one
  EXPECT_NEAR(least("polygraphy", {1.00002}, {1}, {0}), 2, 1e-6);        // neither
  EXPECT_NEAR(least("polygraphy", {5e-6}, {0}, {0}), 0.5, 1e-6);
}

TEST(Rules, NoMultipleTakesANaN) {
  for (const ToleranceRule& rule : tolerance_rules())
    EXPECT_EQ(least(rule.name, {1, nan}, {1, 1}, {1, 1.5}), any_multiple) << rule.name;
}

TEST(Rules, NoneObjectsToTheReferenceItself) {
  for (const ToleranceRule& rule : tolerance_rules())
    EXPECT_EQ(least(rule.name, {1, -0.0, 3e-8}, {1, 0, 3e-8}, {1, 0, 4e-8}), 0) << rule.name;
}

LawVerdict says(std::string_view law, VerdictKind kind) { return {law_named(law), {kind, {}, {}, {}}}; }

TEST(Credit, WhatThePolicyBoundDetectsTooIsTheBounds) {
  using enum VerdictKind;
  std::vector<LawPower> powers{
      {.law = law_named("repeat")}, {.law = law_named("policy-bound")}, {.law = law_named("hull")}};
  add_verdicts(1, std::vector{says("repeat", fail), says("policy-bound", fail), says("hull", pass)}, powers);
  add_verdicts(2, std::vector{says("repeat", pass), says("policy-bound", pass), says("hull", skip)}, powers);
  add_verdicts(3, std::vector{says("repeat", crash), says("policy-bound", vacuous), says("hull", vacuous)}, powers);
  const LawPower& repeat = powers[0];
  EXPECT_EQ(repeat.judged, 3u);
  EXPECT_EQ(repeat.failed, 2u);
  EXPECT_EQ(repeat.first, 1u);
  EXPECT_EQ(repeat.beyond_bound, 1u);
  EXPECT_EQ(repeat.first_beyond_bound, 3u);
  const LawPower& bound = powers[1];
  EXPECT_EQ(bound.judged, 2u);
  EXPECT_EQ(bound.beyond_bound, 1u);
  EXPECT_EQ(bound.first_beyond_bound, 1u);
  EXPECT_EQ(powers[2].judged, 1u);
  EXPECT_FALSE(powers[2].first);
}

TEST(Median, IsTheLowerOfTwo) {
  EXPECT_EQ(median({3, 1, 2}), 2);
  EXPECT_EQ(median({4, 1, 3, 2}), 2);
  EXPECT_EQ(median({1, HUGE_VAL, HUGE_VAL}), HUGE_VAL);
}

// builtin:fused with `shift` added to the first element of out, where that is finite and there is one.
std::unique_ptr<SubjectFactory> shifted(const std::optional<Policy>& policy, double shift) {
  const std::shared_ptr<SubjectFactory> fused =
      builtin_subject("builtin:fused", policy ? to_text(*policy) : std::string());
  return std::make_unique<test::FakeFactory>(fused->info(), [fused, shift]() -> test::Answer {
    const std::shared_ptr<Subject> subject = fused->open();
    return [fused, subject, shift](const attest_attention& call) {
      const CallResult result = subject->run_one(call);
      const attest_tensor& out = call.out;
      if (out.shape[0] * out.shape[1] * out.shape[2] * out.shape[3] > 0)
        store(out, 0, 0, 0, 0, load(out, 0, 0, 0, 0) + shift);
      return result;
    };
  });
}

// Kernels by name: fault:SHIFT and builtin:SHIFT are builtin:fused with that shift, others are built in.
std::unique_ptr<SubjectFactory> open_kernel(const std::string& name, const std::optional<Policy>& policy) {
  if (auto found = builtin_subject(name, policy ? to_text(*policy) : std::string())) return found;
  return shifted(policy, std::stod(name.substr(name.find(':') + 1)));
}

GradeOptions small(std::vector<std::string> faults, std::vector<std::string> conforming) {
  GradeOptions options;
  options.op = &ops::attention_op();
  options.open = open_kernel;
  for (const std::string& fault : faults) options.faults.push_back({fault, "builtin:fused", "none"});
  options.conforming = std::move(conforming);
  options.reference = "builtin:explicit";
  options.policy = attest::policy_for(Format::f32);
  options.policy_text = "f32";
  options.seeds = 2;
  options.cases = 60;
  options.paired = 40;
  options.clean = 20;
  return options;
}

std::size_t column_of(const RuleTable& table, std::string_view name) {
  const auto found = std::ranges::find(table.columns, name, &RuleColumn::name);
  EXPECT_NE(found, table.columns.end()) << name;
  return static_cast<std::size_t>(found - table.columns.begin());
}

TEST(Grade, AFaultThatIsFoundAndKernelsThatAreNotBlamed) {
  const Grade grade = run_grade(small({"fault:0.25"}, {"builtin:fused", "builtin:fused-tile16"}));
  EXPECT_EQ(grade.exit(), Exit::held);
  EXPECT_TRUE(grade.missed().empty());
  ASSERT_EQ(grade.faults.front().hunts.size(), 2u);
  for (const Hunt& hunt : grade.faults.front().hunts) {
    EXPECT_TRUE(hunt.found);
    EXPECT_GE(hunt.drawn, 1u);
    EXPECT_GT(hunt.subject_calls, 0);
  }
  EXPECT_LE(grade.worst_problems(), 60);
  EXPECT_EQ(grade.clean.campaigns, 2u);
  EXPECT_EQ(grade.clean.problems, 40u);
  EXPECT_GT(grade.clean.elements, 0);

  ASSERT_EQ(grade.rules.size(), 2u);
  const RuleTable& plain = grade.rules.front();
  EXPECT_EQ(plain.conforming_cases, 80u);
  const FaultRules& fault = plain.faults.front();
  EXPECT_GT(fault.acts, 30u);
  const std::size_t attest = 0, close = column_of(plain, "assert_close"), loose = column_of(plain, "1e-2");
  EXPECT_TRUE(plain.columns[attest].own);
  EXPECT_EQ(plain.columns[attest].false_alarms, 0u);
  EXPECT_GT(fault.columns[attest].detected, 30u);
  EXPECT_GT(fault.columns[close].detected, 30u);  // 0.25 is far off in f32 by any rule
  EXPECT_GT(fault.columns[loose].detected, 30u);
  EXPECT_TRUE(fault.columns[close].first);
}

TEST(Grade, AFaultThatDoesNothingIsNotFound) {
  const Grade grade = run_grade(small({"fault:0"}, {"builtin:fused"}));
  EXPECT_EQ(grade.missed(), std::vector<std::string>{"fault:0"});
  EXPECT_EQ(grade.exit(), Exit::found);
  EXPECT_EQ(grade.median_problems(), HUGE_VAL);
  EXPECT_EQ(grade.rules.front().faults.front().acts, 0u);
  for (const LawPower& law : grade.faults.front().laws) EXPECT_EQ(law.failed, 0u);
}

// A kernel off by 0.5 among those that are said to conform: attest blames it, and the rules of others are widened until
// they accept it, so that none sees a fault of 0.25 any more.
TEST(Grade, RulesAreWidenedUntilNoConformingCaseIsObjectedTo) {
  const Grade grade = run_grade(small({"fault:0.25"}, {"builtin:fused", "builtin:0.5"}));
  EXPECT_EQ(grade.exit(), Exit::found);
  EXPECT_FALSE(grade.clean.alarms.empty());
  const RuleTable& plain = grade.rules.front();
  EXPECT_FALSE(plain.alarms.empty());
  const std::size_t loose = column_of(plain, "1e-2");
  EXPECT_GT(plain.columns[loose].false_alarms, 0u);
  EXPECT_NEAR(plain.columns[loose].multiple.at(Format::f32), 50,
              5);  // 0.5 of 1e-2 (1 + |expected|), least where that is 0
  const RulePower& power = plain.faults.front().columns[loose];
  EXPECT_GT(power.detected, 30u);
  EXPECT_EQ(power.detected_at_zero, 0u);
  EXPECT_EQ(power.beyond, 0u);
}

// builtin:fused, and three kernels from `draw` on each problem.
GradeOptions with_emulated(DrawEmulated draw) {
  GradeOptions options = small({"fault:0.25"}, {"builtin:fused"});
  options.seeds = options.cases = 1;
  options.clean = 0;
  options.property_glob = "policy-bound";
  options.draw_emulated = std::move(draw);
  options.emulated = 3;
  return options;
}

std::uint64_t small_enough(const GradeOptions& options, bool plain) {
  const auto domain = paired_domain(open_kernel("builtin:fused", options.policy)->info(), *options.op, options.policy);
  std::uint64_t count = 0;
  for (std::uint64_t i = 0; i < options.paired; ++i) {
    const Index size = work_of(paired_problem(*domain, i, plain));
    count += size >= 1 && size <= 1 << 16;
  }
  return count;
}

TEST(Grade, EmulatedKernelsConformBesideTheOthers) {
  const GradeOptions options = with_emulated(emulated_kernel);
  for (const bool plain : {true, false}) {
    const RuleTable table = rule_table(options, plain);
    const std::uint64_t emulated = 3 * small_enough(options, plain);
    EXPECT_GT(emulated, 60u);
    EXPECT_EQ(table.emulated_cases, emulated);
    EXPECT_EQ(table.conforming_cases, 40 + emulated);
    EXPECT_GT(table.widening_cases, 40 + emulated / 3);  // most contracts are ordinary,
    EXPECT_LT(table.widening_cases, 40 + emulated);      // and some are not
    EXPECT_EQ(table.alarms, std::vector<std::string>{});
    EXPECT_EQ(table.columns.front().false_alarms, 0u);
  }
}

// Each problem has kernels of its own. Those that compute another function of their inputs are drawn and not run.
TEST(Grade, EmulatedKernelsDifferFromProblemToProblem) {
  std::set<std::uint64_t> numbers;
  std::mutex guard;
  std::uint64_t drawn = 0, other = 0;
  const GradeOptions options = with_emulated([&](const Policy& policy, std::uint64_t number) {
    const EmulatedKernel kernel = emulated_kernel(policy, number);
    const std::lock_guard lock(guard);
    numbers.insert(number);
    ++drawn;
    const auto first = [](const Contract& contract) { return contract.as<attest::Contract>().softcap_before_bias; };
    other += !first(kernel.contract);
    return EmulatedKernel{kernel.contract, [kernel, first](const Problem& problem) {
                            EXPECT_TRUE(first(kernel.contract));
                            return kernel.on(problem);
                          }};
  });
  for (const bool plain : {true, false}) rule_table(options, plain);
  EXPECT_EQ(numbers.size(), drawn);
  EXPECT_GT(other, 0u);
}

// An emulated kernel with `shift` added to the first element of out.
EmulatedKernel shifted_emulated(const Policy& policy, std::uint64_t number, double shift) {
  const EmulatedKernel kernel = emulated_kernel(policy, number);
  return {kernel.contract, [kernel, shift](const Problem& problem) -> EmulatedCall {
            const EmulatedCall call = kernel.on(problem);
            return {call.contract, [call, shift](const Call& asked) {
                      call.run(asked);
                      const attest_tensor& out = asked.as<attest_attention>().out;
                      if (out.shape[0] * out.shape[1] * out.shape[2] * out.shape[3] > 0)
                        store(out, 0, 0, 0, 0, load(out, 0, 0, 0, 0) + shift);
                    }};
          }};
}

// Emulated kernels that are off by 0.5 though they say that they conform: attest blames them, and the rules of others
// are widened until they accept them.
TEST(Grade, ARuleThatObjectsToAnEmulatedKernelIsWidened) {
  const auto draw = [](const Policy& policy, std::uint64_t number) { return shifted_emulated(policy, number, 0.5); };
  const RuleTable narrow = rule_table(with_emulated(emulated_kernel), true);
  const RuleTable wide = rule_table(with_emulated(draw), true);
  const std::size_t loose = column_of(narrow, "1e-2");
  EXPECT_LT(narrow.columns[loose].multiple.at(Format::f32), 1);
  EXPECT_GT(narrow.faults.front().columns[loose].detected_at_zero, 30u);
  EXPECT_NEAR(wide.columns[loose].multiple.at(Format::f32), 50, 5);
  EXPECT_EQ(wide.faults.front().columns[loose].detected_at_zero, 0u);
  EXPECT_GT(wide.columns.front().false_alarms, 60u);
  ASSERT_EQ(wide.alarms.size(), wide.columns.front().false_alarms);
  EXPECT_TRUE(wide.alarms.front().starts_with("emulated kernel "));
  EXPECT_GT(wide.columns[loose].false_alarms, 30u);
}

// A fault that moves within the bound of its policy, where a rule set on one kernel alone is as tight as that kernel.
TEST(Grade, CasesBeyondAttestAreListed) {
  GradeOptions options = with_emulated({});
  options.faults.front().name = "fault:1e-7";
  const RuleTable table = rule_table(options, true);
  const FaultRules& fault = table.faults.front();
  ASSERT_FALSE(fault.beyond.empty());
  std::uint64_t listed = 0;
  const std::size_t close = column_of(table, "assert_close");
  for (const BeyondCase& each : fault.beyond) {
    EXPECT_NO_THROW(problem_from_text(each.problem));
    for (const BeyondCase::Rule& rule : each.rules)
      if (rule.name == "assert_close") {
        ++listed;
        EXPECT_GT(rule.multiple, table.columns[close].multiple.at(Format::f32));
      }
  }
  EXPECT_EQ(listed, fault.columns[close].beyond);
  EXPECT_LE(listed, fault.most_beyond());
}

// A fault whose cases lie beyond attest: builtin:fused off by what its order of additions might make of it.
GradeOptions beyond_attest() {
  GradeOptions options = with_emulated({});
  options.faults.front().name = "fault:1e-7";
  return options;
}

TEST(Grade, ACaseThatAConformingKernelReturnsIsOwedAndNotBeyond) {
  GradeOptions options = beyond_attest();
  options.paired = 600;
  const RuleTable counted = rule_table(options, true);
  options.conforming_returns = [](const Contract& contract, const Problem& problem, double) {
    EXPECT_EQ(contract.as<attest::Contract>().arithmetic.kv_tile_min, 64);  // the parent's promise
    EXPECT_EQ(make_out(problem.as<attest::Problem>()).size(), 1);
    return true;
  };
  const RuleTable apart = rule_table(options, true);
  const FaultRules &all = counted.faults.front(), &rest = apart.faults.front();
  EXPECT_TRUE(all.owed.empty());
  EXPECT_FALSE(rest.owed.empty());
  EXPECT_EQ(rest.owed.size() + rest.beyond.size(), all.beyond.size());
  EXPECT_EQ(rest.acts, all.acts);  // a case that is owed still counts as one that attest does not detect
  for (std::size_t c = 0; c < apart.columns.size(); ++c) {
    EXPECT_EQ(rest.columns[c].detected_at_zero, all.columns[c].detected_at_zero);
    EXPECT_LE(rest.columns[c].beyond, all.columns[c].beyond);
  }
  options.conforming_returns = [](const Contract&, const Problem&, double) { return false; };
  EXPECT_EQ(rule_table(options, true).faults.front().beyond.size(), all.beyond.size());
}

// Tells whether a kernel that keeps the promise of builtin:fused was found to return the very result of the kernel by
// that name.
bool is_owed(const std::string& kernel, const std::string& text) {
  const attest::Problem problem = attest::problem_from_text(text);
  const auto factory = builtin_subject(kernel, {}), parent = builtin_subject("builtin:fused", {});
  const Inputs inputs = materialise(problem);
  Tensor out = make_out(problem), lse;
  EXPECT_EQ(factory->open()->run_one(inputs.call(out, lse)).status, CallStatus::done);
  return emulated_kernel_returns(contract_for_problem(parent->info(), std::nullopt, problem), problem,
                                 out.at(0, 0, 0, 0));
}

// Another order within tiles is no fault of a single call; nor can a result tell a lost key of 18,000, or lost weights
// that come to less than 1/10,000, from roundings that all point one way.
TEST(Owed, WhatAnotherOrderOfAdditionsReturns) {
  const std::string one = "op=attention b=1 hq=1 hkv=1 lq=1 ";
  EXPECT_TRUE(is_owed("builtin:fused-reversed", one + "lk=700 d=1 dv=1 dtype=f32 values=normal:1 seed=3"));
  EXPECT_TRUE(is_owed("fault:race", one + "lk=1818 d=1 dv=1 dtype=f32 values=normal:1 seed=2474117169"));
  EXPECT_TRUE(is_owed("fault:value-zero-masked", one + "lk=18293 d=2 dv=1 dtype=f32 bias=minus_inf bias_type=f16 "
                                                       "values=normal:1 seed=496248246"));
  EXPECT_TRUE(is_owed("fault:p-unnormalised-flush", one + "lk=27266 d=1 dv=1 dtype=f32 bias=minus_inf bias_axes=5 "
                                                          "bias_type=bf16 values=normal:1 seed=189906364"));
}

// Weights in bf16 round as they do in any order, and f32 sums lose too little: by exact bounds no kernel returns this.
TEST(Owed, NotWhatNoOrderReturns) {
  const std::string one = "op=attention b=1 hq=1 hkv=1 lq=1 ";
  EXPECT_FALSE(is_owed("fault:tail-dropped", one + "lk=27681 d=1 dv=1 dtype=bf16 values=normal:1 seed=2347593997"));
  EXPECT_FALSE(is_owed("fault:scale-twice", one + "lk=700 d=4 dv=1 dtype=f32 values=normal:1 seed=3"));
  EXPECT_FALSE(is_owed("fault:tail-dropped", one + "lk=700 d=1 dv=1 dtype=f32 values=normal:1 seed=3"));
}

// builtin:fused-ampere promises sums of tensor cores: kernels with such set the rules that its faults are held against,
// and no other's.
TEST(Grade, RulesForFaultsOfAKernelWithBlocksAreSetByKernelsWithBlocks) {
  GradeOptions options = with_emulated(emulated_kernel);
  options.faults = {{"fault:bits-dropped", "builtin:fused-ampere", "none"}, {"fault:race", "builtin:fused", "none"}};
  options.conforming = {"builtin:fused", "builtin:fused-ampere", "builtin:fused-volta"};
  const RuleTable few = rule_table(options, true);
  options.draw_emulated_for = [](const Contract& promise, const Policy& policy, std::uint64_t number) {
    EXPECT_EQ(to_text(promise.as<attest::Contract>().arithmetic.mma.value()), "8/24/f32/only");
    return emulated_kernel_for(promise, policy, number);
  };
  const RuleTable many = rule_table(options, true);
  EXPECT_EQ(many.alarms, std::vector<std::string>{});
  EXPECT_EQ(many.widening_cases, few.widening_cases);
  EXPECT_EQ(many.emulated_cases, 3 * few.emulated_cases);
  ASSERT_EQ(few.wider.size(), 1u);
  EXPECT_EQ(few.wider.front().parent, "builtin:fused-ampere");
  EXPECT_EQ(few.wider.front().cases, 40u);  // cases of that kernel itself: Volta's blocks are smaller
  EXPECT_GT(many.wider.front().cases, 80u);
  const std::size_t close = column_of(many, "assert_close");
  EXPECT_EQ(many.columns[close].multiple, few.columns[close].multiple);
  EXPECT_GT(many.wider.front().multiples[close].at(Format::f32), many.columns[close].multiple.at(Format::f32));
  EXPECT_LE(many.faults[0].columns[close].detected_at_zero, few.faults[0].columns[close].detected_at_zero);
  for (std::size_t c = 0; c < many.columns.size(); ++c)
    EXPECT_EQ(many.faults[1].columns[c].detected_at_zero, few.faults[1].columns[c].detected_at_zero);
}

TEST(Grade, ResultsDoNotDependOnTheNumberOfThreads) {
  GradeOptions options = small({"fault:scale-twice"}, {"builtin:fused"});
  options.clean = 0;
  options.draw_emulated = emulated_kernel;
  options.emulated = 2;
  const Grade one = run_grade(options);
  options.jobs = 3;
  const Grade three = run_grade(options);
  ASSERT_EQ(one.faults.front().laws.size(), three.faults.front().laws.size());
  for (std::size_t i = 0; i < one.faults.front().laws.size(); ++i) {
    EXPECT_EQ(one.faults.front().laws[i].failed, three.faults.front().laws[i].failed);
    EXPECT_EQ(one.faults.front().laws[i].first_beyond_bound, three.faults.front().laws[i].first_beyond_bound);
  }
  EXPECT_EQ(one.rules[1].emulated_cases, three.rules[1].emulated_cases);
  EXPECT_EQ(one.rules[1].widening_cases, three.rules[1].widening_cases);
  for (std::size_t c = 0; c < one.rules.front().columns.size(); ++c) {
    EXPECT_EQ(one.rules[1].columns[c].multiple, three.rules[1].columns[c].multiple);
    EXPECT_EQ(one.rules[1].faults[0].columns[c].detected_at_zero, three.rules[1].faults[0].columns[c].detected_at_zero);
  }
  EXPECT_EQ(one.faults.front().hunts[1].drawn, three.faults.front().hunts[1].drawn);
}

// ---- every operation ------------------------------------------------------------------------------------------------

// Two kernels and a fault of each, by the names of the command line.
struct OfOperation {
  const Op* op;
  std::string prefix, fault, other;
};

GradeOptions options_of(const OfOperation& of) {
  GradeOptions options;
  options.op = of.op;
  options.open = [](const std::string& name, const std::optional<Policy>& policy) {
    return builtin_subject(name, policy ? to_text(*policy) : std::string());
  };
  options.conforming = {"builtin:" + of.prefix + "fused", "builtin:" + of.prefix + "explicit", of.other};
  options.reference = options.conforming[1];
  options.faults = {{of.fault, options.conforming[0], "none"},
                    {options.conforming[0], options.conforming[0], "itself"}};
  options.draw_emulated = emulated_kernel;
  options.emulated = 4;
  options.paired = 60;
  return options;
}

const std::vector<OfOperation>& operations() {
  static const std::vector<OfOperation> all{
      {&ops::attention_op(), "", "fault:scale-twice", "builtin:fused-truncating"},
      {&ops::layer_norm_op(), "ln-", "fault:ln-bf16-reduce", "builtin:ln-fused-one-pass"},
      {&ops::mha_op(), "mha-", "fault:mha-qkv-order", "builtin:mha-separate"}};
  return all;
}

TEST(GradeOperations, AFaultIsSeenAndNoConformingKernelIsBlamed) {
  for (const OfOperation& of : operations()) {
    const GradeOptions options = options_of(of);
    for (const bool plain : {true, false}) {
      const RuleTable table = rule_table(options, plain);
      EXPECT_EQ(table.alarms, std::vector<std::string>{}) << of.op->name();
      EXPECT_GT(table.emulated_cases, 100u) << of.op->name();
      EXPECT_LT(table.widening_cases, table.conforming_cases) << of.op->name();  // the third kernel sets no rule
      EXPECT_GT(table.widening_cases, 120u) << of.op->name();
      EXPECT_GT(table.columns[column_of(table, "polygraphy")].false_alarms, 0u) << of.op->name();
      const FaultRules &fault = table.faults[0], &itself = table.faults[1];
      EXPECT_GT(fault.acts, 10u) << of.op->name();
      EXPECT_GT(fault.columns[0].detected * 5, fault.acts * 4) << of.op->name();
      EXPECT_EQ(itself.acts, 0u) << of.op->name();  // nothing to detect where nothing differs
    }
  }
}

// Emulated kernels of each operation that are off though they say that they conform.
TEST(GradeOperations, AnEmulatedKernelThatIsOffIsBlamed) {
  for (const OfOperation& of : operations()) {
    GradeOptions options = options_of(of);
    options.faults.resize(1);
    options.draw_emulated = [](const Policy& policy, std::uint64_t number) {
      EmulatedKernel kernel = emulated_kernel(policy, number);
      return EmulatedKernel{kernel.contract, [kernel](const Problem& problem) -> EmulatedCall {
                              const EmulatedCall call = kernel.on(problem);
                              return {call.contract, [call](const Call& asked) {
                                        call.run(asked);
                                        for (const TensorSlot& slot : asked.shape().tensors) {
                                          const attest_tensor& out = asked.tensor(slot);
                                          if (!slot.written() || !attest_present(&out)) continue;
                                          for (int axis = 0; axis < out.ndim; ++axis)
                                            if (out.shape[axis] == 0) return;
                                          store(out, 0, 0, 0, 0, load(out, 0, 0, 0, 0) * 1.25 + 1);
                                          return;
                                        }
                                      }};
                            }};
    };
    const RuleTable table = rule_table(options, true);
    EXPECT_GT(table.alarms.size() * 2, table.emulated_cases) << of.op->name();
  }
}

TEST(GradeOperations, ACampaignFindsTheFault) {
  for (const OfOperation& of : operations()) {
    GradeOptions options = options_of(of);
    options.faults.resize(1);
    options.seeds = 1;
    options.cases = 300;
    options.paired = 10;
    options.clean = 3;
    const Grade grade = run_grade(options);
    EXPECT_EQ(grade.exit(), Exit::held) << of.op->name();
    EXPECT_GT(grade.faults.front().hunts.front().work, 0) << of.op->name();
    EXPECT_EQ(grade.clean.campaigns, 3 * of.op->named_policies().size()) << of.op->name();
    for (const LawPower& law : grade.faults.front().laws) EXPECT_EQ(all_laws()[law.law].op, of.op);
  }
}

// A contract is ordinary if it permits nothing that a silent one does not, and no wider than another that permits as
// much.
TEST(Grading, TellsUnusualPromises) {
  struct Row {
    const Op* op;
    const char *policy, *promise;
    bool ordinary;
  };
  for (const Row& row : {
           Row{&ops::attention_op(), "f16", R"({"exp2":false,"kv_tile_min":4})", true},
           Row{&ops::attention_op(), "f16", R"({"kappa":3})", false},
           Row{&ops::attention_op(), "f16", R"({"mma":"ampere"})", false},
           Row{&ops::layer_norm_op(), "f16", R"({"variance":"welford","depth":{"lanes":8}})", true},
           Row{&ops::layer_norm_op(), "f16", R"({"rsqrt_ulp":0.5,"form":"folded"})", true},
           Row{&ops::layer_norm_op(), "f16", R"({"variance":"one_pass"})", false},
           Row{&ops::layer_norm_op(), "f16", R"({"rsqrt_ulp":4})", false},
           Row{&ops::layer_norm_op(), "f16", R"({"rsqrt_rel":1e-3})", false},
           Row{&ops::layer_norm_op(), "f16", R"({"norm_rounded":true})", false},
           Row{&ops::layer_norm_op(), "f16", R"({"flush_to_zero":true})", false},
           Row{&ops::layer_norm_op(), "f16", R"({"sum_of":"unrounded"})", false},
           Row{&ops::mha_op(), "f16", R"({"projections":"unrounded","heads":"unrounded"})", true},
           Row{&ops::mha_op(), "f16", R"({"gemm_chain":6,"drops_b_k":true})", true},
           Row{&ops::mha_op(), "f16", R"({"projections":"separate"})", false},
           Row{&ops::mha_op(), "f16", R"({"kappa":3})", false},
       }) {
    const ops::Grading& grading = *row.op->grading();
    const Policy policy = row.op->policy_from_text(row.policy);
    const Contract contract = row.op->contract_from_json(nlohmann::json::parse(row.promise), policy);
    EXPECT_EQ(is_ordinary(grading, contract), row.ordinary) << row.op->name() << ' ' << row.promise;
    EXPECT_TRUE(grading.no_wider(contract, grading.silent(policy), contract)) << row.promise;
    EXPECT_TRUE(grading.same_function(contract, grading.silent(policy))) << row.promise;
  }
  const ops::Grading& norm = *ops::layer_norm_op().grading();
  const Policy f32 = ops::layer_norm_op().policy_from_text("f32");
  const auto moved = ops::layer_norm_op().contract_from_json(nlohmann::json::parse(R"({"gamma_offset":1})"), f32);
  EXPECT_FALSE(norm.same_function(moved, norm.silent(f32)));
}

// Answers with what `answer` writes.
class Answers final : public Subject {
 public:
  Answers(const SubjectInfo& info, std::function<void(const attest_layer_norm&)> answer)
      : info_(info), answer_(std::move(answer)) {}
  [[nodiscard]] const SubjectInfo& info() const noexcept override { return info_; }
  std::vector<CallResult> run(std::span<const Call> calls) override {
    for (const Call& call : calls) answer_(call.as<attest_layer_norm>());
    return std::vector<CallResult>(calls.size());
  }

 private:
  const SubjectInfo& info_;
  std::function<void(const attest_layer_norm&)> answer_;
};

// The exact reference sees the very numbers in f64, is asked for out alone, and what it gives is kept unrounded.
TEST(Watched, TheExactReferenceIsAskedInF64) {
  const auto kernel = builtin_subject("builtin:ln-fused", {});
  const Problem problem =
      problem_from_text("op=layer_norm rows=2 hidden=3 dtype=f16 residual=like_x sum_out=1 param_type=f32 seed=5");
  int asked = 0;
  Answers inner(kernel->info(), [&](const attest_layer_norm& call) {
    ++asked;
    for (const attest_tensor* tensor : {&call.x, &call.residual, &call.out})
      EXPECT_EQ(dtype_of(tensor->dtype), DType::f64);
    EXPECT_EQ(dtype_of(call.gamma.dtype), DType::f32);
    EXPECT_FALSE(attest_present(&call.sum_out));
    for (Index row = 0; row < 2; ++row)
      for (Index column = 0; column < 3; ++column)
        store(call.out, row, column, 0, 0, load(call.x, row, column) + 0x1p-40);
  });
  InF64 wide(inner, kernel->info());
  const Contract contract = contract_for_problem(kernel->info(), std::nullopt, problem);
  problem.op().trial(problem, contract, wide, nullptr)->base();
  ASSERT_EQ(wide.out().size(), 6u);
  const auto inputs = attest::layer_norm::materialise(problem.as<attest::layer_norm::Problem>());
  for (Index n = 0; n < 6; ++n) EXPECT_EQ(wide.out()[static_cast<std::size_t>(n)], inputs.x.at(n / 3, n % 3) + 0x1p-40);
  EXPECT_EQ(asked, 1);
}

TEST(Watched, KeepsWhatTheFirstCallGave) {
  const auto kernel = builtin_subject("builtin:ln-fused", {});
  const Problem problem = problem_from_text("op=layer_norm rows=2 hidden=3 dtype=f32 residual=like_x sum_out=1 seed=5");
  double next = 1;
  Answers inner(kernel->info(), [&](const attest_layer_norm& call) {
    for (const attest_tensor* tensor : {&call.out, &call.sum_out})
      for (Index row = 0; row < 2; ++row)
        for (Index column = 0; column < 3; ++column) store(*tensor, row, column, 0, 0, next++);
  });
  Watched watched(inner);
  const Contract contract = contract_for_problem(kernel->info(), std::nullopt, problem);
  for (int twice = 0; twice < 2; ++twice) problem.op().trial(problem, contract, watched, nullptr)->base();
  EXPECT_EQ(watched.outputs(), (std::vector<std::vector<double>>{{1, 2, 3, 4, 5, 6}, {7, 8, 9, 10, 11, 12}}));
}

// Interrupted while `what` is measured, after `done` others.
Grade interrupted_at(std::string_view what, std::size_t done) {
  GradeOptions options = small({"fault:0.25", "fault:0.5"}, {"builtin:fused", "builtin:fused-tile16"});
  options.seeds = 1;
  options.paired = 10;
  options.clean = 3;
  std::atomic<bool> interrupt{false};
  options.interrupt = &interrupt;
  options.progress = [&](std::string_view now, std::size_t at, std::size_t) {
    interrupt = interrupt || (now == what && at == done);
  };
  return run_grade(options);
}

TEST(Grade, AnInterruptLeavesWhatIsWhole) {
  const Grade none = interrupted_at("fault:0.25", 0);
  EXPECT_TRUE(none.interrupted && none.faults.empty());
  EXPECT_EQ(none.exit(), Exit::interrupted);
  EXPECT_TRUE(std::isnan(none.worst_problems()));

  const Grade one = interrupted_at("fault:0.5", 1);
  EXPECT_TRUE(one.interrupted);
  ASSERT_EQ(one.faults.size(), 1u);
  EXPECT_EQ(one.faults.front().hunts.size(), 1u);
  EXPECT_FALSE(one.faults.front().laws.empty());
  EXPECT_TRUE(one.rules.empty());
  EXPECT_EQ(one.exit(), Exit::interrupted);

  const Grade both = interrupted_at("rules", 1);
  EXPECT_TRUE(both.interrupted);
  EXPECT_EQ(both.faults.size(), 2u);
  ASSERT_EQ(both.rules.size(), 1u);
  EXPECT_EQ(both.rules.front().problems, 10u);
  EXPECT_EQ(both.clean.campaigns, 0u);
  EXPECT_EQ(both.clean.asked, 2u);

  const Grade half = interrupted_at("builtin:fused-tile16", 1);
  EXPECT_TRUE(half.interrupted);
  EXPECT_EQ(half.rules.size(), 2u);
  EXPECT_EQ(half.clean.campaigns, 1u);

  EXPECT_FALSE(interrupted_at("nothing", 0).interrupted);
}

TEST(Grade, BadOptionsAreNamed) {
  GradeOptions options = small({}, {"builtin:fused"});
  EXPECT_THROW(run_grade(options), Error);
  options = small({"fault:scale-twice"}, {"builtin:fused"});
  options.property_glob = "bird*";
  EXPECT_THROW(run_grade(options), Error);
}

}  // namespace
}  // namespace attest::engine
