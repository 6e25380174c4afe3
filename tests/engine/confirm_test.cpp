// Tests the blame for a failure: the call, the call that poisoned its instance, the calls before it, or a busy machine.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "attest/plugin.h"
#include "engine/campaign.hpp"
#include "engine/check.hpp"
#include "engine/history.hpp"
#include "engine/instance.hpp"
#include "engine/replay.hpp"
#include "engine/sound.hpp"
#include "fake_subject.hpp"
#include "subjects/builtin.hpp"
#include "temporary_folder.hpp"

namespace attest::engine {
namespace {

using attest::Contract;
using attest::Policy;
using attest::Problem;
using attest::problem_from_text;

using Meddle = std::function<CallResult(const attest_attention&, CallResult)>;

// Runs each call on `inner`; the function that `make` gives for each instance may change the answer.
std::unique_ptr<test::FakeFactory> stateful(const SubjectFactory& inner, std::function<Meddle()> make) {
  SubjectInfo info = inner.info();
  info.name = "./stateful.so";
  return std::make_unique<test::FakeFactory>(info, [&inner, make]() -> test::Answer {
    const std::shared_ptr<Subject> subject = inner.open();
    return [subject, meddle = make()](const attest_attention& call) { return meddle(call, subject->run_one(call)); };
  });
}

template <class Change>
void change(const attest_attention& call, Change&& change) {
  const auto* n = call.out.shape;
  for (Index b = 0; b < n[0]; ++b)
    for (Index h = 0; h < n[1]; ++h)
      for (Index i = 0; i < n[2]; ++i)
        for (Index c = 0; c < n[3]; ++c)
          attest_store(&call.out, b, h, i, c, change(attest_load(&call.out, b, h, i, c)));
}

// About one shape in a hundred.
bool poisons(const attest_attention& call) {
  std::uint64_t hash = 0;
  for (const attest_tensor* tensor : {&call.q, &call.k, &call.v})
    for (int axis = 0; axis < 4; ++axis) hash = hash * 31 + static_cast<std::uint64_t>(tensor->shape[axis]);
  return hash * 0x9E3779B97F4A7C15 >> 56 < 3;
}

enum class Way : std::uint8_t { error, crash, wrong, nan };
constexpr std::array ways{Way::error, Way::crash, Way::wrong, Way::nan};

// Right until a call poisons the instance; that one is right too, and all after it fail. `fired` counts the poisonings.
std::unique_ptr<test::FakeFactory> poisonable(const SubjectFactory& inner, Way way, std::shared_ptr<int> fired) {
  return stateful(inner, [way, fired]() -> Meddle {
    return [way, fired, sick = std::make_shared<bool>(false)](const attest_attention& call, CallResult result) {
      if (*sick) {
        if (way == Way::error) return CallResult{CallStatus::error, "device lost", 0};
        if (way == Way::crash) *sick = false;  // as a worker that is started again
        if (way == Way::crash) return CallResult{CallStatus::crash, "the worker was killed by SIGSEGV", 0};
        change(call, [&](double x) { return way == Way::nan ? std::nan("") : 1 + 2 * std::abs(x); });
        return result;
      }
      if (poisons(call)) {
        *sick = true;
        ++*fired;
      }
      return result;
    };
  });
}

class Confirm : public testing::Test {
 protected:
  CampaignOptions options(std::uint64_t seed, std::uint64_t cases) const {
    CampaignOptions options;
    options.subject = "./stateful.so";
    options.seed = seed;
    options.cases = cases;
    options.corpus = folder.path();
    return options;
  }
  // Replays in a process that was asked nothing before.
  ReplayResult replayed(const SubjectFactory& subject, const Finding& finding) const {
    ReplayResult last;
    const Resolve resolve = [&](const Entry&) {
      return std::make_unique<test::FakeFactory>(dynamic_cast<const test::FakeFactory&>(subject));
    };
    replay({finding.reproducer}, resolve, nullptr, [&](const ReplayResult& result) { last = result; });
    return last;
  }

  test::TemporaryFolder folder;
  std::unique_ptr<SubjectFactory> fused = builtin_subject("builtin:fused", {});
};

TEST_F(Confirm, OnlyTheCallsThatPoisonAreBlamed) {
  int findings = 0;
  for (const Way way : ways)
    for (std::uint64_t seed = 1; seed <= 6; ++seed) {
      const auto fired = std::make_shared<int>(0);
      const auto subject = poisonable(*fused, way, fired);
      Observer silent;
      const Summary summary = run_campaign(*subject, nullptr, options(seed, 150), silent);
      if (*fired == 0) continue;
      for (const Finding& finding : summary.findings) {
        ++findings;
        ASSERT_NE(finding.entry.seen, VerdictKind::flaky) << finding.entry.reason;
        ASSERT_FALSE(finding.reproducer.empty());
        *fired = 0;
        const ReplayResult again = replayed(*subject, finding);
        EXPECT_EQ(again.outcome, Replayed::as_expected) << again.sentence << "\n"
                                                        << to_text(finding.entry.problem) << "\n"
                                                        << finding.entry.bucket;
        EXPECT_GT(*fired, 0) << to_text(finding.entry.problem);
      }
    }
  EXPECT_GT(findings, 20);
}

// After a death nothing is left to look at: the first one of a dtype too is traced to the check before it, however many
// there were.
TEST_F(Confirm, EachDeathIsBlamedOnTheCallBeforeIt) {
  const auto subject = stateful(*fused, []() -> Meddle {
    return [sick = std::make_shared<bool>(false)](const attest_attention& call, CallResult result) {
      if (std::exchange(*sick, call.causal != 0 && !*sick))
        return CallResult{CallStatus::crash, "the worker was killed by SIGSEGV", 0};
      return result;
    };
  });
  Station station(*subject, nullptr);
  const std::array laws{law_named("guards"), law_named(policy_bound_name)};
  for (int round = 0; round < 5; ++round)
    for (const char* dtype : {"f32", "f16", "bf16"}) {
      const Problem culprit =
          problem_from_text("b=1 hq=1 hkv=1 lq=2 lk=5 d=4 dv=4 causal=1 dtype=" + std::string(dtype));
      const Problem innocent = problem_from_text("b=1 hq=1 hkv=1 lq=2 lk=7 d=4 dv=4 dtype=" + std::string(dtype));
      const Contract contract = subject->info().contract(culprit.dtype);
      ASSERT_FALSE(check_confirmed(culprit, contract, station.bench(), laws).reported);
      const CaseOutcome outcome = check_confirmed(innocent, contract, station.bench(), laws);
      ASSERT_TRUE(outcome.reported);
      EXPECT_EQ(outcome.finding()->verdict.kind, VerdictKind::poisoned) << dtype << ", round " << round;
      EXPECT_EQ(outcome.blamed(innocent), culprit) << dtype << ", round " << round;
    }
}

// A death that a settled condition explains costs one death, is counted and no more; wrong numbers are asked for again
// all the same.
TEST_F(Confirm, ADeathThatIsUnderstoodIsNotAskedForAgain) {
  const auto causal = [](const auto& dies) {
    return [&dies](const attest_attention& call, CallResult result) {
      if (call.causal == 0) return result;
      ++dies.calls;
      if (dies.status != CallStatus::done) return CallResult{dies.status, "out of luck", 0};
      change(call, [](double) { return std::nan(""); });
      return result;
    };
  };
  struct Dies {
    CallStatus status;
    mutable int calls = 0;
  };
  const std::array laws{law_named("guards"), law_named(policy_bound_name)};
  const Problem problem = problem_from_text("b=1 hq=1 hkv=1 lq=2 lk=5 d=4 dv=4 causal=1 dtype=f32");
  for (const CallStatus status : {CallStatus::crash, CallStatus::error, CallStatus::timeout, CallStatus::done})
    for (const bool understood : {false, true}) {
      const Dies dies{status};
      const auto subject = test::meddled(*fused, causal(dies));
      Station station(*subject, nullptr);
      const Contract contract = subject->info().contract(problem.dtype);
      const CaseOutcome outcome =
          check_confirmed(problem, contract, station.bench(), laws, [&](const CaseOutcome&) { return understood; });
      ASSERT_TRUE(outcome.reported);
      const bool once = understood && status != CallStatus::done;
      EXPECT_EQ(outcome.presumed, once);
      EXPECT_EQ(dies.calls == 1, once) << dies.calls;
    }
}

// The subject acts as a lost device does: the call's own process has ended, and nothing is left to be asked whether it
// still answers.
TEST_F(Confirm, AnErrorThatEndsItsInstanceIsADeath) {
  int deaths = 0, others = 0;
  const auto subject = stateful(*fused, [&]() -> Meddle {
    return [&](const attest_attention& call, CallResult result) {
      ++(call.causal != 0 ? deaths : others);
      return call.causal != 0 ? CallResult{CallStatus::error, "misaligned address", 0, true} : result;
    };
  });
  Station station(*subject, nullptr);
  const std::array laws{law_named("guards"), law_named(policy_bound_name)};
  const Problem problem = problem_from_text("b=1 hq=1 hkv=1 lq=2 lk=5 d=4 dv=4 causal=1 dtype=f32");
  const Contract contract = subject->info().contract(problem.dtype);
  for (const int asked : {3, 2, 2}) {  // the first of its kind once more, for the laws that it takes
    deaths = 0;
    const CaseOutcome outcome = check_confirmed(problem, contract, station.bench(), laws);
    ASSERT_TRUE(outcome.reported);
    EXPECT_EQ(outcome.finding()->verdict.kind, VerdictKind::error);
    EXPECT_EQ(deaths, asked);
  }
  EXPECT_EQ(others, 0);
}

// A plug-in in this process keeps what it has lost: a failure after that is nobody's.
TEST_F(Confirm, NothingIsBlamedBehindAnErrorThatNothingStartsAgain) {
  class Kept final : public Subject {
   public:
    explicit Kept(std::unique_ptr<Subject> inner) : inner_(std::move(inner)) {}
    [[nodiscard]] const SubjectInfo& info() const noexcept override { return inner_->info(); }
    std::vector<CallResult> run(std::span<const Call> calls) override {
      std::vector<CallResult> results;
      for (const Call& call : calls) {
        is_lost_ = is_lost_ || call.as<attest_attention>().causal != 0;
        results.push_back(is_lost_ ? CallResult{CallStatus::error, "device lost", 0, true} : inner_->run_one(call));
      }
      return results;
    }
    bool renew() override { return false; }

   private:
    std::unique_ptr<Subject> inner_;
    bool is_lost_ = false;
  } kept(fused->open());
  Instance instance;
  const Bench bench{.subject = kept, .instance = &instance};
  const std::array laws{law_named("guards"), law_named(policy_bound_name)};
  Problem problem = problem_from_text("b=1 hq=1 hkv=1 lq=2 lk=5 d=4 dv=4 dtype=f32");
  const Contract contract = kept.info().contract(problem.dtype);
  EXPECT_FALSE(check_confirmed(problem, contract, bench, laws).reported);
  Problem culprit = problem;
  culprit.causal = true;
  const CaseOutcome found = check_confirmed(culprit, contract, bench, laws);
  ASSERT_TRUE(found.reported);
  EXPECT_EQ(found.finding()->verdict.kind, VerdictKind::error);
  for (; problem.lk < 9; ++problem.lk) {
    const CaseOutcome outcome = check_confirmed(problem, contract, bench, laws);
    ASSERT_TRUE(outcome.reported);
    EXPECT_EQ(outcome.finding()->verdict.kind, VerdictKind::flaky);
  }
}

// An error of an instance that an earlier call poisoned says nothing of its own call, whatever explains it.
TEST_F(Confirm, NothingIsPresumedOfAnInstanceThatIsNotSound) {
  const auto subject = poisonable(*fused, Way::error, std::make_shared<int>(0));
  Station station(*subject, nullptr);
  const std::array laws{law_named("guards")};
  Problem culprit = problem_from_text("b=1 hq=1 hkv=1 lq=2 lk=5 d=4 dv=4 dtype=f32");
  const Contract contract = subject->info().contract(culprit.dtype);
  const auto understood = [](const CaseOutcome&) { return true; };
  for (; culprit.lk < 1000; ++culprit.lk) {
    const CaseOutcome outcome = check_confirmed(culprit, contract, station.bench(), laws, understood);
    ASSERT_FALSE(outcome.presumed) << culprit.lk;
    if (!outcome.reported) continue;
    EXPECT_EQ(outcome.finding()->verdict.kind, VerdictKind::poisoned);
    return;
  }
  FAIL() << "nothing was poisoned";
}

// The first canary ends every instance: that says nothing of this one.
TEST_F(Confirm, AKernelThatDiesOfACanaryIsNotTakenForPoisoned) {
  const auto subject = test::meddled(*fused, [](const attest_attention& call, CallResult result) {
    const bool dies = call.k.shape[2] == 3, fails = call.k.shape[2] > 20;
    if (dies) return CallResult{CallStatus::crash, "the worker was killed by SIGSEGV", 0};
    return fails ? CallResult{CallStatus::error, "no such plan", 0} : result;
  });
  Observer silent;
  const Summary summary = run_campaign(*subject, nullptr, options(1, 60), silent);
  ASSERT_FALSE(summary.findings.empty());
  for (const Finding& finding : summary.findings)
    EXPECT_TRUE(finding.entry.seen == VerdictKind::error || finding.entry.seen == VerdictKind::crash)
        << name(finding.entry.seen) << " " << finding.entry.reason;
}

TEST_F(Confirm, AKernelThatIsWrongEverywhereIsNotTakenForPoisoned) {
  const auto nan = stateful(*fused, []() -> Meddle {
    return [](const attest_attention& call, CallResult result) {
      change(call, [](double) { return std::nan(""); });
      return result;
    };
  });
  Observer silent;
  const Summary summary = run_campaign(*nan, nullptr, options(1, 20), silent);
  ASSERT_FALSE(summary.findings.empty());
  for (const Finding& finding : summary.findings) EXPECT_EQ(finding.entry.seen, VerdictKind::fail);
}

// A canary that is right under what a form promises says nothing of a sound instance that fails under what the others
// do.
TEST_F(Confirm, AFormThatPromisesLessMakesNoInstancePoisoned) {
  const Policy f32 = policy_from_text("f32");
  const auto inner = builtin_subject("builtin:fused", to_text(f32));
  SubjectInfo info = inner->info();
  info.name = "./coarse.so";
  info.supports.forms = {{"hint", {"none", "coarse"}}};
  Contract coarse = info.contract(Format::f32);
  coarse.policy = policy_from_text("*=bf16,storage=f32,output=f32");
  info.form_contracts = {{{{"hint", "coarse"}}, {coarse}}};
  const test::FakeFactory subject(info, [&inner]() -> test::Answer {
    const std::shared_ptr<Subject> kernel = inner->open();
    return [kernel](const attest_attention& call) {
      const CallResult result = kernel->run_one(call);
      change(call, [](double x) { return x * 1.0001; });  // right under bf16 alone
      return result;
    };
  });
  const std::unique_ptr<Subject> kernel = subject.open();
  Instance instance;
  const Bench bench{.subject = *kernel, .instance = &instance};
  EXPECT_FALSE(ailment(bench, coarse));
  EXPECT_FALSE(ailment(bench, info.contract(Format::f32)));
}

TEST_F(Confirm, ASoundInstanceIsLeftAlone) {
  const auto lives = std::make_shared<int>(0);
  const auto counted = stateful(*fused, [lives]() -> Meddle {
    ++*lives;
    return [](const attest_attention&, CallResult result) { return result; };
  });
  Observer silent;
  const Summary summary = run_campaign(*counted, nullptr, options(1, 50), silent);
  EXPECT_TRUE(summary.findings.empty());
  EXPECT_EQ(*lives, 1);
}

// The scale of the first call of a shape stays with that shape: each call is right on a fresh instance.
TEST_F(Confirm, WhatDependsOnTheCallsBeforeIsReproducedWithThem) {
  const auto plans = stateful(*fused, []() -> Meddle {
    const auto scales = std::make_shared<std::map<std::pair<Index, Index>, double>>();
    return [scales](const attest_attention& call, CallResult result) {
      const auto [plan, first] = scales->try_emplace({call.k.shape[2], call.q.shape[3]}, call.scale);
      if (plan->second != call.scale) change(call, [](double x) { return 1 + 2 * std::abs(x); });
      return result;
    };
  });
  CampaignOptions asked = options(4, 400);
  asked.laws = {0, ""};
  Observer silent;
  const Summary summary = run_campaign(*plans, nullptr, asked, silent);
  ASSERT_FALSE(summary.findings.empty());
  for (const Finding& finding : summary.findings) {
    const Entry& entry = finding.entry;
    ASSERT_EQ(entry.after.size(), 1u) << to_text(entry.problem) << "\n" << name(entry.seen) << " " << entry.reason;
    EXPECT_TRUE(entry.after[0].laws.empty());
    EXPECT_EQ(entry.after[0].problem.as<Problem>().lk, entry.problem.as<Problem>().lk);
    EXPECT_EQ(entry.after[0].problem.as<Problem>().d, entry.problem.as<Problem>().d);
    EXPECT_LE(entry.problem.as<Problem>().multiply_adds(), 4) << to_text(entry.problem);
    EXPECT_TRUE(entry.minimal);
    const ReplayResult again = replayed(*plans, finding);
    EXPECT_EQ(again.outcome, Replayed::as_expected) << again.sentence;
  }
}

// No call is at fault: the 41st fails, and all after it.
TEST_F(Confirm, AnInstanceThatWearsOutIsReproducedByAsManyCalls) {
  const auto worn = stateful(*fused, []() -> Meddle {
    return [calls = std::make_shared<int>(0)](const attest_attention&, CallResult result) {
      return ++*calls > 40 ? CallResult{CallStatus::error, "out of handles", 0} : result;
    };
  });
  CampaignOptions asked = options(1, 60);
  asked.laws = {0, ""};
  Observer silent;
  const Summary summary = run_campaign(*worn, nullptr, asked, silent);
  ASSERT_FALSE(summary.findings.empty());
  for (const Finding& finding : summary.findings) {
    const bool last_is_blamed = finding.entry.seen == VerdictKind::poisoned;
    EXPECT_EQ(finding.entry.after.size() + last_is_blamed, 40u) << to_text(finding.entry.problem);
    EXPECT_EQ(replayed(*worn, finding).outcome, Replayed::as_expected);
  }
}

TEST_F(Confirm, ATimeoutThatDoesNotComeAgainIsCountedAsSlow) {
  const auto calls = std::make_shared<int>(0);
  const auto busy = test::meddled(*fused, [calls](const attest_attention&, CallResult result) {
    return ++*calls == 30 ? CallResult{CallStatus::timeout, "no answer within 10 s", 0} : result;
  });
  Observer silent;
  const Summary summary = run_campaign(*busy, nullptr, options(1, 60), silent);
  EXPECT_TRUE(summary.findings.empty());
  EXPECT_EQ(summary.slow, 1u);
  EXPECT_EQ(summary.exit(), Exit::held);
}

// Large problems of a slow kernel: they answer if one waits.
TEST_F(Confirm, WhatAnswersWhenOneWaitsLongerIsSlow) {
  class Slow final : public SubjectFactory {
   public:
    explicit Slow(const SubjectFactory& inner) : inner_(inner) {}
    [[nodiscard]] const SubjectInfo& info() const noexcept override { return inner_.info(); }
    [[nodiscard]] std::unique_ptr<Subject> open() const override { return std::make_unique<One>(inner_.open()); }

   private:
    class One final : public Subject {
     public:
      explicit One(std::unique_ptr<Subject> inner) : inner_(std::move(inner)) {}
      [[nodiscard]] const SubjectInfo& info() const noexcept override { return inner_->info(); }
      std::vector<CallResult> run(std::span<const Call> calls) override {
        std::vector<CallResult> results;
        for (const Call& call : calls)
          results.push_back(times_ < 3 && call.as<attest_attention>().k.shape[2] > 20
                                ? CallResult{CallStatus::timeout, "no answer within 10 s", 0}
                                : inner_->run_one(call));
        return results;
      }
      bool renew() override { return true; }
      void wait_longer(int times, double /*most*/) noexcept override { times_ = times; }

     private:
      std::unique_ptr<Subject> inner_;
      int times_ = 1;
    };
    const SubjectFactory& inner_;
  };
  Observer silent;
  const Summary summary = run_campaign(Slow(*fused), nullptr, options(1, 60), silent);
  EXPECT_TRUE(summary.findings.empty());
  EXPECT_GT(summary.slow, 0u);
  EXPECT_EQ(summary.exit(), Exit::held);
}

TEST_F(Confirm, ATimeoutThatComesAgainIsAFinding) {
  const auto hangs = test::meddled(*fused, [](const attest_attention& call, CallResult result) {
    return call.k.shape[2] > 20 ? CallResult{CallStatus::timeout, "no answer within 10 s", 0} : result;
  });
  Observer silent;
  const Summary summary = run_campaign(*hangs, nullptr, options(1, 60), silent);
  ASSERT_FALSE(summary.findings.empty());
  EXPECT_EQ(summary.findings[0].entry.seen, VerdictKind::timeout);
  EXPECT_EQ(summary.findings[0].entry.problem.as<Problem>().lk, 21);
  EXPECT_EQ(summary.slow, 0u);
}

Asked call_of(Index lk) {
  Problem problem;
  problem.lk = lk;
  return {problem, {}};
}

TEST(History, TheFewestCallsAreFound) {
  std::vector<Asked> calls;
  for (Index lk = 1; lk <= 100; ++lk) calls.push_back(call_of(lk));
  const auto has = [](const std::vector<Asked>& some, Index lk) {
    return std::ranges::any_of(some, [&](const Asked& call) { return call.problem.as<Problem>().lk == lk; });
  };
  int asked = 0;
  const auto shows = [&](const std::vector<Asked>& some) {
    ++asked;
    return has(some, 17) && has(some, 60) && has(some, 61);
  };
  const std::vector<Asked> fewest = fewest_calls(calls, shows, {});
  ASSERT_EQ(fewest.size(), 3u);
  EXPECT_EQ(fewest[0].problem.as<Problem>().lk, 17);
  EXPECT_EQ(fewest[2].problem.as<Problem>().lk, 61);
  EXPECT_LT(asked, 100);
  // The latest will do, and no budget leaves what came in.
  EXPECT_EQ(fewest_calls(calls, [](const auto& some) { return !some.empty(); }, {}).front().problem.as<Problem>().lk,
            100);
  EXPECT_EQ(fewest_calls(calls, shows, [] { return true; }).size(), 100u);
}

TEST(History, ACallMovesAlongWhereItWasEqual) {
  const Problem from = problem_from_text("b=1 hq=1 hkv=1 lq=3 lk=5 d=4 dv=4 dtype=f32 scale=0.5 seed=1");
  Problem to = from, call = from;
  to.lk = 1;
  to.scale.reset();
  call.lq = 7;
  call.scale = 0.25;
  const Problem moved = moved_along(call, from, to).as<Problem>();
  EXPECT_EQ(moved.lk, 1);
  EXPECT_EQ(moved.lq, 7);
  EXPECT_EQ(moved.scale, 0.25);
}

TEST(InstanceHistory, IsBoundedAndEndsWithTheLife) {
  Instance instance;
  for (Index lk = 1; lk <= 300; ++lk) instance.asked(call_of(lk).problem, {});
  const Instance::Mark mark = instance.mark();
  ASSERT_EQ(instance.before(mark).size(), Instance::most_kept);
  EXPECT_EQ(instance.before(mark).front().problem.as<Problem>().lk, 45);
  EXPECT_EQ(instance.before(mark).back().problem.as<Problem>().lk, 300);
  instance.started();
  instance.asked(call_of(400).problem, {});
  EXPECT_EQ(instance.before(instance.mark()).size(), 1u);
  EXPECT_EQ(instance.before(mark).back().problem.as<Problem>().lk, 300);  // a check of the life before
}

}  // namespace
}  // namespace attest::engine
