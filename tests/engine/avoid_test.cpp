#include "engine/avoid.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "engine/campaign.hpp"
#include "fake_subject.hpp"
#include "ops/attention.hpp"
#include "subjects/builtin.hpp"

namespace attest::engine {
namespace {

using attest::Problem;
using attest::problem_from_text;
using attest::Supports;

// A kernel that dies on causal problems, and is wrong on rare ones.
std::unique_ptr<test::FakeFactory> crowded(const SubjectFactory& inner) {
  return test::meddled(inner, [](const attest_attention& call, CallResult result) {
    if (call.causal != 0) return CallResult{CallStatus::crash, "killed by SIGSEGV", 0};
    if (call.softcap > 0 && call.q.shape[2] == 1) return CallResult{CallStatus::error, "no such plan", 0};
    return result;
  });
}

CampaignOptions asked(std::uint64_t cases, int jobs) {
  CampaignOptions options;
  options.subject = "./crowded.so";
  options.cases = cases;
  options.seed = 5;
  options.jobs = jobs;
  return options;
}

std::uint64_t crashes(const Summary& summary) {
  std::uint64_t n = 0;
  for (const auto& [law, counts] : summary.verdicts) n += counts.of(VerdictKind::crash);
  return n;
}

TEST(Avoid, WhatIsUnderstoodGivesWay) {
  const auto fused = builtin_subject("builtin:fused", {});
  const auto subject = crowded(*fused);
  Observer silent;
  const Summary avoiding = run_campaign(*subject, nullptr, asked(600, 2), silent);
  CampaignOptions without = asked(600, 2);
  without.avoid = false;
  const Summary all = run_campaign(*subject, nullptr, without, silent);
  EXPECT_LT(3 * crashes(avoiding), crashes(all));
  EXPECT_GT(crashes(avoiding), 0u);
  EXPECT_GT(avoiding.redrawn, 50u);
  EXPECT_EQ(all.redrawn, 0u);
  ASSERT_FALSE(avoiding.avoided.empty());
  EXPECT_EQ(avoiding.avoided[0].predicate, "causal");
  EXPECT_EQ(avoiding.avoided[0].failing, avoiding.avoided[0].asked);
  ASSERT_EQ(avoiding.defects.size(), 2u);
  EXPECT_EQ(avoiding.defects.at(avoiding.avoided[0].defect - 1).key.kind, VerdictKind::crash);
  // The rare one is found beside it, as a defect of its own.
  bool rare = false;
  for (const Finding& finding : avoiding.findings) rare = rare || finding.entry.seen == VerdictKind::error;
  EXPECT_TRUE(rare);
}

TEST(Avoid, DependsOnCaseNumbersAlone) {
  const auto fused = builtin_subject("builtin:fused", {});
  const auto subject = crowded(*fused);
  Observer silent;
  const auto facts = [&](int jobs) {
    const Summary summary = run_campaign(*subject, nullptr, asked(300, jobs), silent);
    std::vector<std::string> all{std::to_string(summary.redrawn), std::to_string(crashes(summary))};
    for (const Finding& finding : summary.findings)
      all.push_back(to_text(finding.entry.problem) + std::to_string(finding.failures));
    return all;
  };
  const auto one = facts(1);
  EXPECT_EQ(one, facts(2));
  EXPECT_EQ(one, facts(7));
}

TEST(Avoid, APassInsideRetiresARule) {
  const Supports supports = Supports::everything();
  Avoidance avoidance(supports, 1, true, true);
  const FailureKey key{"guards", VerdictKind::crash, "killed-by-sigsegv"};
  avoidance.rules.push_back({key, *predicate_from_text("causal"), true, false, 5, 5, false});
  const Problem causal = problem_from_text("b=1 hq=1 hkv=1 lq=2 lk=2 d=1 dv=1 causal=1");
  CaseRow row{7, 0, row_of(causal, supports), {}, {}, {}};
  EXPECT_NE(avoidance.explanation(key, row.traits), nullptr);
  row.held.set(law_named("guards"));
  avoidance.count(row);
  avoidance.learn(CaseTable(supports));
  EXPECT_TRUE(avoidance.rules[0].retired);
  EXPECT_EQ(avoidance.explanation(key, row.traits), nullptr);
}

// A rule for deaths, of which `asked` all failed, and a problem inside.
constexpr std::uint64_t enough = 8;
const FailureKey death{"guards", VerdictKind::crash, "killed-by-sigsegv"};
AvoidRule for_deaths() { return {death, *predicate_from_text("causal"), true, false, enough, enough, false}; }
CaseRow row(const Supports& supports, std::uint64_t number, bool causal, std::vector<FailureKey> failures) {
  Problem problem = problem_from_text("b=1 hq=1 hkv=1 lq=2 lk=2 d=1 dv=1");
  problem.causal = causal;
  return {number, 0, row_of(problem, supports), {}, std::move(failures), {}};
}

TEST(Avoid, DeathsTakeATenthOfTheTime) {
  const Supports supports = Supports::everything();
  Avoidance avoidance(supports, 1, true, true);
  avoidance.rules.push_back(for_deaths());
  const FailureKey wrong{"policy-bound", VerdictKind::fail, "finite"};
  avoidance.rules.push_back({wrong, *predicate_from_text("softcap>0"), true, false, enough, enough, false});
  // Clean cases take 3 ms, and every 20th is a death of 500 ms.
  std::uint64_t number = 0;
  for (; number < 400; ++number)
    number % 20 == 0 ? avoidance.spend(row(supports, number, true, {death}), 0.5)
                     : avoidance.spend(row(supports, number, false, {}), 0.003);
  avoidance.learn(CaseTable(supports));
  // At one in 20 they take 10 s beside 1.14 s; a tenth of that are 0.114 s.
  EXPECT_NEAR(static_cast<double>(avoidance.rules[0].one_in), 20 * 10 / 0.114, 5);
  EXPECT_EQ(avoidance.rules[1].one_in, inside_one_in);
  const auto domain = ops::attention_op().domain(supports, {Format::f32});
  std::uint64_t inside = 0, asked = 0;
  for (std::uint64_t i = 0; i < 20'000; ++i) {
    inside += domain->draw(1, i, 1).problem.as<Problem>().causal;
    asked += avoidance.draw(*domain, i, 1).problem.as<Problem>().causal;
  }
  EXPECT_LT(asked * 500, inside);
  EXPECT_GT(asked, 0u);
}

// Sixteen problems of one plan agree in everything that a plan is for: a condition that only they have tells nothing.
// Five plans do.
TEST(Avoid, OnePlanIsOneWitness) {
  const Supports supports = Supports::everything();
  const std::uint64_t repeat = 16;
  const FailureKey refused{"guards", VerdictKind::error, "refused"};
  const auto table_of = [&](std::uint64_t failing_plans) {
    CaseTable table(supports);
    for (std::uint64_t plan = 0; plan < 40; ++plan)
      for (std::uint64_t i = 0; i < repeat; ++i) {
        const bool fails = plan % 8 == 0 && plan / 8 < failing_plans;
        CaseRow one = row(supports, plan * repeat + i, fails, {});
        if (fails)
          one.failures = {refused};
        else
          one.held.set(law_named("guards"));
        table.add(std::move(one));
      }
    return table;
  };
  for (const std::uint64_t plans : {1, 4, 5}) {
    Avoidance avoidance(supports, 1, true, true);
    avoidance.learn(table_of(plans), repeat);
    ASSERT_EQ(avoidance.rules.size(), plans < 5 ? 0u : 1u) << plans;
    if (plans < 5) continue;
    EXPECT_EQ(to_text(avoidance.rules[0]), "causal");
    EXPECT_EQ(avoidance.rules[0].failing, 5 * repeat);  // all of them count
    EXPECT_EQ(avoidance.rules[0].asked, 5 * repeat);
  }
  Avoidance of_single_problems(supports, 1, true, true);
  of_single_problems.learn(table_of(1), 1);
  EXPECT_EQ(of_single_problems.rules.size(), 1u);
}

TEST(Avoid, ALawWhoseOwnCallsDieNowAndThenIsAskedSeldom) {
  const Supports supports = Supports::everything();
  Avoidance avoidance(supports, 1, true, true);
  const std::size_t law = law_named("layout");
  const FailureKey of_law{"layout", VerdictKind::crash, "killed-by-sigsegv"};
  CaseTable table(supports);
  for (std::uint64_t number = 0; number < 40; ++number) {  // nothing of the problem says which
    CaseRow one = row(supports, number, false, {});
    if (number % 4 == 0)
      one.failures = {of_law};
    else
      one.held.set(law);
    avoidance.spend(one, number % 4 == 0 ? 0.5 : 0.003);
    table.add(std::move(one));
  }
  avoidance.learn(table);
  ASSERT_EQ(avoidance.rules.size(), 1u);
  const AvoidRule& rule = avoidance.rules[0];
  EXPECT_EQ(to_text(rule), "law==layout");
  EXPECT_EQ(rule.failing, 10u);
  EXPECT_EQ(rule.asked, 40u);
  EXPECT_GT(rule.one_in, 100u);
  const Problem any = problem_from_text("b=1 hq=1 hkv=1 lq=2 lk=2 d=1 dv=1");
  std::uint64_t left_out = 0;
  for (std::uint64_t i = 0; i < 10'000; ++i) {
    std::vector laws{law_named("guards"), law};
    left_out += avoidance.leave_out(laws, any, i, 1);
  }
  EXPECT_GT(left_out, 9'900u);
  EXPECT_LT(left_out, 10'000u);
  // It stands, though problems pass, and explains no failure.
  CaseRow passed = row(supports, 41, false, {});
  passed.held.set(law);
  avoidance.count(passed);
  avoidance.learn(table);
  EXPECT_FALSE(avoidance.rules[0].retired);
  EXPECT_EQ(avoidance.explanation(of_law, passed.traits), nullptr);
  EXPECT_EQ(avoidance.understood(of_law), 0u);
  // It is stored.
  const AvoidRule again = rule_from_json(to_json(avoidance.rules[0]), ops::attention_op());
  EXPECT_TRUE(again.costly);
  EXPECT_EQ(again.one_in, avoidance.rules[0].one_in);
}

TEST(Avoid, DeathsArePresumedBehindAReproducerAloneAndUntilOneIsDoubted) {
  const Supports supports = Supports::everything();
  Avoidance avoidance(supports, 1, true, true);
  avoidance.rules.push_back(for_deaths());
  const Row inside = row(supports, 0, true, {}).traits, outside = row(supports, 0, false, {}).traits;
  const auto presumed = [&](const FailureKey& key, const Row& traits) {
    int times = 0;
    for (std::uint64_t number = 0; number < 800; ++number) times += avoidance.presumes(key, traits, number);
    return times;
  };
  EXPECT_EQ(presumed(death, inside), 0);
  avoidance.settle([](const AvoidRule&) { return true; });
  EXPECT_GT(presumed(death, inside), 650);  // one in eight is asked again
  EXPECT_LT(presumed(death, inside), 750);
  EXPECT_EQ(presumed(death, outside), 0);
  EXPECT_EQ(presumed({"guards", VerdictKind::crash, "killed-by-sigabrt"}, inside), 0);
  avoidance.doubt("guards", outside);
  EXPECT_GT(presumed(death, inside), 0);
  avoidance.doubt("guards", inside);
  EXPECT_EQ(presumed(death, inside), 0);
  avoidance.settle([](const AvoidRule&) { return true; });
  EXPECT_EQ(presumed(death, inside), 0);
}

TEST(Avoid, BoundariesGrow) {
  std::uint64_t last = 0;
  for (int i = 0; i < 30; ++i) {
    const std::uint64_t next = Avoidance::boundary_after(last);
    EXPECT_GT(next, last);
    EXPECT_LE(next, std::max<std::uint64_t>(16, 2 * last));
    last = next;
  }
}

}  // namespace
}  // namespace attest::engine
