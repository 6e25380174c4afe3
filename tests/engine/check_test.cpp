#include "engine/check.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <set>

#include "core/error.hpp"
#include "engine/stream.hpp"
#include "fake_subject.hpp"
#include "generators/draw.hpp"
#include "ops/attention.hpp"
#include "properties/property.hpp"
#include "subjects/builtin.hpp"

namespace attest::engine {
namespace {

using attest::Contract;
using attest::Domain;
using attest::Problem;
using attest::problem_from_text;

const Problem plain = problem_from_text("b=2 hq=2 hkv=1 lq=3 lk=5 d=4 dv=3 dtype=f32 lse=f32 values=normal:1 seed=3");

// Positions in all_laws() of those of one subject.
std::vector<std::size_t> laws_of_attention() {
  std::vector<std::size_t> laws;
  for (std::size_t law = 0; law < all_laws().size(); ++law)
    if (all_laws()[law].op == &ops::attention_op() && !compares(all_laws()[law].name)) laws.push_back(law);
  return laws;
}

class Check : public testing::Test {
 protected:
  std::unique_ptr<SubjectFactory> fused = builtin_subject("builtin:fused", {});
  std::unique_ptr<SubjectFactory> peer = builtin_subject("builtin:explicit", {});
  Contract contract = fused->info().contract(Format::f32);

  std::vector<std::size_t> all() {
    std::vector<std::size_t> laws(properties::properties().size());
    for (std::size_t i = 0; i < laws.size(); ++i) laws[i] = i;
    return laws;
  }
  CaseOutcome run(const SubjectFactory& factory, bool confirmed = false) {
    const auto subject = factory.open(), other = peer->open();
    return confirmed ? check_confirmed(plain, contract, {*subject, other.get()}, all())
                     : check(plain, contract, {*subject, other.get()}, all());
  }
  CaseOutcome answering(CallStatus status, int from_call = 1) {
    const auto calls = std::make_shared<int>(0);
    const auto factory = test::meddled(*fused, [=](const attest_attention&, CallResult result) {
      return ++*calls >= from_call ? CallResult{status, "because", 0} : result;
    });
    return run(*factory);
  }
};

TEST_F(Check, AConformingSubjectPassesEveryLaw) {
  const CaseOutcome outcome = run(*fused);
  EXPECT_EQ(outcome.finding(), nullptr);
  EXPECT_TRUE(outcome.executed());
  EXPECT_EQ(outcome.laws.size(), properties::properties().size());
  EXPECT_GT(outcome.subject_calls, 1);
}

// An error is of the call that was not done: the problem's own, or one that a law made of it.
TEST_F(Check, ALawTellsWhichOfItsCallsWasNotDone) {
  const auto biased = test::meddled(*fused, [](const attest_attention& call, CallResult result) {
    return call.bias.data != nullptr ? CallResult{CallStatus::error, "no bias", 0} : result;
  });
  const CaseOutcome outcome = run(*biased);
  const auto shift = std::ranges::find(outcome.laws, law_named("score-shift"), &LawVerdict::law);
  ASSERT_NE(shift, outcome.laws.end());
  ASSERT_EQ(shift->verdict.kind, VerdictKind::error);
  ASSERT_TRUE(shift->call);
  const Problem call = shift->call->as<Problem>();
  EXPECT_NE(call.bias, Bias::none);
  EXPECT_EQ(call.lk, plain.lk);
  EXPECT_EQ(call.values, plain.values);
  for (const LawVerdict& law : outcome.laws)
    EXPECT_TRUE(is_finding(law.verdict.kind) || !law.call) << all_laws()[law.law].name;
  for (const LawVerdict& law : answering(CallStatus::error).laws) EXPECT_FALSE(law.call) << "it is the problem's own";
}

TEST_F(Check, CallsThatFailBecomeVerdicts) {
  for (const auto& [status, kind] :
       {std::pair{CallStatus::crash, VerdictKind::crash}, std::pair{CallStatus::timeout, VerdictKind::timeout},
        std::pair{CallStatus::error, VerdictKind::error}}) {
    const CaseOutcome outcome = answering(status);
    ASSERT_NE(outcome.finding(), nullptr);
    EXPECT_EQ(outcome.finding()->law, 0u);
    EXPECT_EQ(outcome.finding()->verdict.kind, kind);
    EXPECT_EQ(outcome.finding()->verdict.reason, "because");
    EXPECT_EQ(outcome.subject_calls, 1);
  }
}

TEST_F(Check, UnsupportedIsASkipOfEveryLaw) {
  const CaseOutcome outcome = answering(CallStatus::unsupported);
  EXPECT_FALSE(outcome.executed());
  for (const LawVerdict& law : outcome.laws) EXPECT_EQ(law.verdict.kind, VerdictKind::skip);
}

TEST_F(Check, ALaterDeathBelongsToTheLawThatAsked) {
  const CaseOutcome outcome = answering(CallStatus::crash, 2);
  ASSERT_NE(outcome.finding(), nullptr);
  EXPECT_GT(outcome.finding()->law, 0u);
  EXPECT_EQ(outcome.finding()->verdict.kind, VerdictKind::crash);
}

TEST_F(Check, TheFirstFailingLawInOrderIsReported) {
  const auto fault = builtin_subject("fault:scale-twice", {});
  const CaseOutcome outcome = run(*fault);
  ASSERT_NE(outcome.finding(), nullptr);
  for (const LawVerdict& law : outcome.laws)
    EXPECT_TRUE(law.law >= outcome.finding()->law || !is_finding(law.verdict.kind));
  EXPECT_TRUE(std::ranges::is_sorted(outcome.laws, {}, &LawVerdict::law));
}

TEST_F(Check, WhatRepeatsIsConfirmedAndWhatDoesNotIsFlaky) {
  const auto fault = builtin_subject("fault:scale-twice", {});
  EXPECT_EQ(run(*fault, true).finding()->verdict.kind, VerdictKind::fail);
  const auto calls = std::make_shared<int>(0);
  const auto flaky = test::meddled(*fused, [=](const attest_attention&, CallResult result) {
    return ++*calls == 1 ? CallResult{CallStatus::crash, "once", 0} : result;
  });
  EXPECT_EQ(run(*flaky, true).finding()->verdict.kind, VerdictKind::flaky);
}

TEST_F(Check, AWriteOutOfBoundsIsTheFindingOfTheLawThatAsked) {
  // Only calls of a single sample write past the end: the base call has two.
  const auto scribbler = test::meddled(*fused, [](const attest_attention& call, CallResult result) {
    if (call.out.shape[0] == 1) {
      const auto last = call.out.shape[0] * call.out.strides[0];
      static_cast<float*>(static_cast<void*>(static_cast<char*>(call.out.data) + call.out.byte_offset))[last] = 0;
    }
    return result;
  });
  const CaseOutcome outcome = run(*scribbler, true);
  ASSERT_NE(outcome.finding(), nullptr);
  EXPECT_GT(outcome.finding()->law, 0u);
  EXPECT_EQ(outcome.key().what, "memory");
}

TEST_F(Check, WhatShowsOnlyBesideOtherLawsKeepsThem) {
  // Errs on the fifth call of a check of all laws, and not while the failing law runs alone in between.
  const auto erring_at = [&](std::set<int> which) {
    const auto calls = std::make_shared<int>(0);
    return test::meddled(*fused, [=](const attest_attention&, CallResult result) {
      return which.contains(++*calls) ? CallResult{CallStatus::error, "now", 0} : result;
    });
  };
  const CaseOutcome first = run(*erring_at({5}));
  ASSERT_NE(first.finding(), nullptr);
  const auto subject = fused->open(), other = peer->open();
  const CaseOutcome alone = check(plain, contract, {*subject, other.get()}, first.needed);
  const int again = static_cast<int>(first.subject_calls + alone.subject_calls) + 5;
  const CaseOutcome outcome = run(*erring_at({5, again}), true);
  ASSERT_NE(outcome.finding(), nullptr);
  EXPECT_EQ(outcome.finding()->verdict.kind, VerdictKind::error);
  EXPECT_EQ(outcome.needed, all());
}

TEST_F(Check, WindowsAtTheEndOfTheirTypeLeaveEveryKey) {
  for (const Index end : {Index{1} << 31, std::numeric_limits<Index>::max()})
    for (const char* sides : {"lq=7 lk=3", "lq=3 lk=7"})
      for (const Align align : {Align::top_left, Align::bottom_right}) {
        Problem problem =
            problem_from_text(std::string("b=2 hq=2 hkv=1 d=4 dv=3 lengths=ragged values=normal:1 seed=5 ") + sides);
        problem.align = align;
        const auto subject = fused->open(), other = peer->open();
        for (const auto& [left, right] : {std::pair{end, Index{-1}}, {Index{-1}, end}, {end, end}}) {
          problem.window_left = left, problem.window_right = right;
          const CaseOutcome outcome = check(problem, contract, {*subject, other.get()}, all());
          EXPECT_EQ(outcome.finding(), nullptr) << to_text(problem);
        }
      }
}

// Two samples of f64 that lie 2^32 elements apart fit; the five that a law of batches may ask for do not.
TEST_F(Check, ALawThatAsksForTooLargeATensorIsSkipped) {
  const auto f64 = builtin_subject("builtin:fused", "f64");
  const Contract promised = f64->info().contract(Format::f64);
  const auto subject = f64->open();
  const std::vector<std::size_t> laws{law_named("batch-bitwise")};
  std::set<std::string> reasons;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Problem problem = problem_from_text("b=2 hq=1 hkv=1 lq=1 lk=1 d=1 dv=1 dtype=f64 q_layout=far values=normal:1");
    problem.seed = seed;
    const CaseOutcome outcome = check(problem, promised, {*subject, nullptr}, laws);
    EXPECT_EQ(outcome.finding(), nullptr) << to_text(problem);
    const Verdict& verdict = outcome.laws.front().verdict;
    reasons.insert(verdict.kind == VerdictKind::skip ? verdict.reason : std::string(name(verdict.kind)));
  }
  EXPECT_EQ(reasons, (std::set<std::string>{"pass", "what it asks has a tensor that is larger than attest lays out"}));
}

TEST_F(Check, LawsAreChosenByCaseAndNeverOutsideTheirPreconditions) {
  const SubjectInfo& info = fused->info();
  const auto made = domain_for(info, ops::attention_op(), std::nullopt, std::nullopt);
  const Domain& domain = ops::attention_domain(*made);
  const std::vector<std::size_t> all = laws_of_attention();
  std::set<std::size_t> applicable, drawn;
  for (std::uint64_t i = 0; i < 600; ++i) {
    const Problem problem = draw_problem(domain, 5, i, 1);
    const Contract promised = info.contract(problem.dtype);
    const auto laws = choose_laws({}, problem, promised, info, 5, i);
    EXPECT_EQ(laws, choose_laws({}, problem, promised, info, 5, i));
    EXPECT_TRUE(std::ranges::is_sorted(laws));
    EXPECT_TRUE(std::ranges::binary_search(laws, law_named(policy_bound_name)));
    EXPECT_LE(laws.size(), 6u);
    for (const std::size_t law : all)
      if (!all_laws()[law].not_applicable(problem, promised, info)) applicable.insert(law);
    for (const std::size_t law : laws) {
      drawn.insert(law);
      const Law& property = all_laws()[law];
      EXPECT_TRUE(property.base_call() || !property.not_applicable(problem, promised, info)) << property.name;
    }
    EXPECT_EQ(choose_laws({0, ""}, problem, promised, info, 5, i).size(), 4u);
    EXPECT_EQ(choose_laws({std::nullopt, ""}, problem, promised, info, 5, i), all);
  }
  EXPECT_EQ(drawn, applicable);  // none is never drawn
}

TEST_F(Check, LawsThatNeedPlansOfTheirOwnAreDrawnWithTheFirstCaseOfAPlan) {
  const SubjectInfo& info = fused->info();
  const auto made = domain_for(info, ops::attention_op(), std::nullopt, std::nullopt);
  const Domain& domain = ops::attention_domain(*made);
  std::set<std::size_t> first, others;
  for (std::uint64_t i = 0; i < 800; ++i) {
    const Problem problem = draw_problem(domain, 5, i, 8);
    const Contract promised = info.contract(problem.dtype);
    const auto laws = choose_laws({}, problem, promised, info, 5, i, 8);
    if (i % 8 == 0) {
      EXPECT_EQ(laws, choose_laws({}, problem, promised, info, 5, i));
    }
    (i % 8 == 0 ? first : others).insert(laws.begin(), laws.end());
    EXPECT_EQ(choose_laws({std::nullopt, ""}, problem, promised, info, 5, i, 8), laws_of_attention());
    EXPECT_EQ(choose_laws({2, "layout"}, problem, promised, info, 5, i, 8), std::vector{law_named("layout")});
  }
  const auto keeps_plan = [](std::size_t law) { return all_laws()[law].keeps_plan(); };
  EXPECT_TRUE(std::ranges::all_of(others, keeps_plan));
  EXPECT_FALSE(std::ranges::all_of(first, keeps_plan));
}

TEST(UsualRepeat, FollowsFromWhatAPlanCosts) {
  SubjectInfo info;
  EXPECT_EQ(usual_repeat(info), 1u);
  std::uint64_t before = 1;
  for (const double plan_ms : {1., 5., 30., 300., 700., 3000., 20'000., 3'600'000.}) {
    info.plan_ms = plan_ms;
    EXPECT_GE(usual_repeat(info), before);
    before = usual_repeat(info);
  }
  EXPECT_GT(before, 1u);
  EXPECT_EQ(before, 128u);
  info.plan_ms = 500;
  EXPECT_EQ(usual_repeat(info), 32u);
  info.plan_ms = 1;
  EXPECT_EQ(usual_repeat(info), 1u);
  info.plan_ms = 1e6;
  const SubjectInfo plain;
  EXPECT_EQ(usual_repeat(plain, &info), before);
}

TEST(UsualJobs, AreNoMoreThanADeviceHasTurnsFor) {
  SubjectInfo info;
  EXPECT_EQ(usual_jobs(info, 16), 16);
  info.device = "cuda:0";
  EXPECT_EQ(usual_jobs(info, 16), 6);
  EXPECT_EQ(usual_jobs(info, 2), 2);
  info.plan_ms = 70;
  EXPECT_EQ(usual_jobs(info, 16), 16);
}

TEST(LawChoices, AGlobWithoutAMatchIsAUsageError) {
  EXPECT_NO_THROW(validate({2, "policy-*"}));
  EXPECT_THROW(validate({2, "nothing-like-it"}), Error);
  EXPECT_THROW(law_named("nothing-like-it"), Error);
}

}  // namespace
}  // namespace attest::engine
