#include "engine/avoid.hpp"

#include <gtest/gtest.h>

#include "engine/campaign.hpp"
#include "fake_subject.hpp"
#include "subjects/builtin.hpp"

namespace attest::engine {
namespace {

using attest::Problem;
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
  EXPECT_EQ(avoiding.avoided[0].defect, 1u);
  // The rare one is found beside it, as a defect of its own.
  bool rare = false;
  for (const Finding& finding : avoiding.findings) rare = rare || finding.entry.seen == VerdictKind::error;
  EXPECT_TRUE(rare);
  EXPECT_EQ(avoiding.defects.size(), 2u);
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
