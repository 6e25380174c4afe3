#include "engine/campaign.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "core/error.hpp"
#include "core/json_text.hpp"
#include "engine/file.hpp"
#include "fake_subject.hpp"
#include "subjects/builtin.hpp"
#include "temporary_folder.hpp"

namespace attest::engine {
namespace {

namespace fs = std::filesystem;

// Keeps what it is told, in order.
class Log : public Observer {
 public:
  void on_failure(const RawFailure& failure) override { raw.push_back(failure.case_number); }
  void on_finding(const Finding& finding, bool first) override {
    found.push_back((first ? "new " : "better ") + finding.entry.bucket);
  }
  std::vector<std::uint64_t> raw;
  std::vector<std::string> found;
};

CampaignOptions options(const std::string& subject, std::uint64_t cases) {
  CampaignOptions options;
  options.subject = subject;
  options.cases = cases;
  options.seed = 11;
  options.jobs = 2;
  return options;
}

Summary run(const std::string& subject, const CampaignOptions& options, Observer& log) {
  const std::string policy = options.policy ? to_text(*options.policy) : std::string();
  const auto factory = builtin_subject(subject, policy);
  const auto peer = builtin_subject("builtin:explicit", policy);
  return run_campaign(*factory, peer.get(), options, log);
}
Summary run(const std::string& subject, const CampaignOptions& options) {
  Observer silent;
  return run(subject, options, silent);
}

// A summary without what the clock decides.
std::string facts(const Summary& summary) {
  nlohmann::ordered_json object = to_json(summary, [](const Finding&) { return std::string(); });
  object.erase("seconds");
  object.erase("seconds_in");
  object.erase("earlier_cases");
  for (auto& finding : object["findings"]) {
    finding.erase("seconds_to_first");
    finding.erase("reproducer");
  }
  for (auto& defect : object["defects"]) {
    defect.erase("seconds_to_first");
    defect.erase("reproducer");
  }
  return json_text(object, 1);
}

TEST(Campaign, AConformingSubjectHolds) {
  const Summary summary = run("builtin:fused", options("builtin:fused", 150));
  EXPECT_EQ(summary.cases, 150u);
  EXPECT_EQ(summary.executed, 150u);
  EXPECT_GT(summary.judged, 130u);
  EXPECT_GT(summary.elements, 1000);
  EXPECT_TRUE(summary.findings.empty());
  EXPECT_EQ(summary.exit(), Exit::held);
}

TEST(Campaign, AFaultIsFoundShrunkAndBucketed) {
  const test::TemporaryFolder folder;
  CampaignOptions asked = options("fault:scale-twice", 60);
  asked.corpus = folder.path();
  Log log;
  const Summary summary = run("fault:scale-twice", asked, log);
  ASSERT_FALSE(summary.findings.empty());
  EXPECT_EQ(summary.exit(), Exit::found);
  EXPECT_EQ(summary.cases, 60u);
  EXPECT_GE(summary.failing_cases, log.raw.size());
  for (const Finding& finding : summary.findings) {
    // Its values are its own, and only a wide row brings a lead of so many nats down.
    if (finding.entry.property != "hard-selection") {
      EXPECT_LE(work_of(finding.entry.problem), 16) << to_text(finding.entry.problem);
    }
    EXPECT_TRUE(finding.entry.minimal);
    EXPECT_EQ(read_entry(finding.reproducer).bucket, finding.entry.bucket);
  }
  std::uint64_t failures = 0;
  for (const Finding& finding : summary.findings) failures += finding.failures;
  EXPECT_EQ(failures, summary.failing_cases);
  EXPECT_EQ(corpus_files({folder.path()}).size(), summary.findings.size());
}

TEST(Campaign, ThreadsDecideNothing) {
  for (const char* subject : {"builtin:fused", "fault:batch-path", "fault:rescale-missing"}) {
    std::map<int, std::string> results;
    for (const int jobs : {1, 2, 8}) {
      CampaignOptions asked = options(subject, 60);
      asked.jobs = jobs;
      results[jobs] = facts(run(subject, asked));
    }
    EXPECT_EQ(results[1], results[2]) << subject;
    EXPECT_EQ(results[1], results[8]) << subject;
  }
}

TEST(Campaign, NeitherThreadsNorAStopDecideAnythingWherePlansAreKept) {
  const std::string subject = "fault:tail-included";
  CampaignOptions asked = options(subject, 90);
  asked.repeat = 8;
  const std::string whole = facts(run(subject, asked));
  for (const int jobs : {1, 8}) {
    asked.jobs = jobs;
    EXPECT_EQ(facts(run(subject, asked)), whole) << jobs;
  }
  const test::TemporaryFolder folder;
  asked.folder = folder.path();
  asked.cases = 43;
  run(subject, asked);
  asked.cases = 90;
  EXPECT_EQ(facts(run(subject, asked)), whole);
  asked.repeat = 4;
  EXPECT_THROW(run(subject, asked), Error);
}

// Each instance plans for itself.
TEST(Campaign, TheCasesOfAPlanMeetOneInstance) {
  const auto fused = builtin_subject("builtin:fused", {});
  for (const int jobs : {1, 4}) {
    std::atomic<int> plans = 0;
    const test::FakeFactory planner(fused->info(), [&]() -> test::Answer {
      const std::shared_ptr<Subject> subject = fused->open();
      const auto planned = std::make_shared<std::vector<std::int64_t>>();
      return [&plans, subject, planned](const attest_attention& call) {
        const std::vector<std::int64_t> plan{call.q.shape[0], call.q.shape[1], call.q.shape[2],   call.q.shape[3],
                                             call.k.shape[1], call.k.shape[2], call.q.strides[0], call.q.strides[2]};
        plans += *planned != plan;
        *planned = plan;
        return subject->run_one(call);
      };
    });
    CampaignOptions asked = options("./planner.so", 160);
    asked.repeat = 8;
    asked.jobs = jobs;
    asked.avoid = false;
    asked.laws.property_glob = "policy-bound";
    Observer silent;
    const Summary summary = run_campaign(planner, nullptr, asked, silent);
    EXPECT_EQ(summary.cases, 160u);
    EXPECT_LE(plans, 20 + 4) << "at " << jobs
                             << " jobs";  // 20 plans; a block may end within one where rules may change
  }
}

TEST(Campaign, StopsAtTheFailingCaseOfSmallestNumber) {
  CampaignOptions asked = options("fault:batch-path", 100);
  const Summary all = run("fault:batch-path", asked);
  ASSERT_FALSE(all.findings.empty());
  asked.continue_after_failure = false;
  for (const int jobs : {1, 4}) {
    asked.jobs = jobs;
    const Summary first = run("fault:batch-path", asked);
    ASSERT_EQ(first.findings.size(), 1u);
    EXPECT_EQ(first.findings[0].case_number, all.findings[0].case_number);
    EXPECT_EQ(first.cases, first.findings[0].case_number + 1);
  }
}

TEST(Campaign, KnownBucketsAreCountedAndDoNotFail) {
  CampaignOptions asked = options("fault:tail-included", 40);
  for (const Finding& finding : run("fault:tail-included", asked).findings) asked.known.push_back({finding.entry, {}});
  ASSERT_FALSE(asked.known.empty());
  const Summary again = run("fault:tail-included", asked);
  EXPECT_EQ(again.exit(), Exit::held);
  EXPECT_EQ(again.findings.size(), asked.known.size());
}

std::set<std::string> failures_of(std::uint64_t count) {
  class Keys : public Observer {
   public:
    void on_failure(const RawFailure& f) override {
      keys.insert(std::to_string(f.case_number) + " " + to_text(f.outcome.key()));
    }
    std::set<std::string> keys;
  };
  std::set<std::string> all;
  for (std::uint64_t index = 1; index <= count; ++index) {
    CampaignOptions asked = options("fault:softcap-after-bias", 90);
    asked.shard = {index, count};
    Keys keys;
    run("fault:softcap-after-bias", asked, keys);
    all.merge(keys.keys);
  }
  return all;
}

TEST(Campaign, ShardsTogetherFindWhatTheWholeFinds) {
  const std::set<std::string> whole = failures_of(1);
  EXPECT_FALSE(whole.empty());
  EXPECT_EQ(failures_of(2), whole);
  EXPECT_EQ(failures_of(3), whole);
}

TEST(Campaign, GoesOnWhereItStopped) {
  const std::string subject = "fault:batch-path";
  const Summary whole = run(subject, options(subject, 80));
  const test::TemporaryFolder folder;
  CampaignOptions part = options(subject, 50);
  part.folder = folder.path() / "campaign";
  part.corpus = part.folder / "corpus";
  run(subject, part);
  std::ofstream(part.folder / "progress.jsonl", std::ios::app) << "{\"summary\": {\"cut off by a kil";
  std::ofstream(part.folder / "findings.jsonl", std::ios::app) << "{\"bucket";
  part.cases = 80;
  const Summary resumed = run(subject, part);
  EXPECT_EQ(facts(resumed), facts(whole));
  EXPECT_EQ(corpus_files({part.corpus}).size(), whole.findings.size());
  EXPECT_EQ(facts(run(subject, part)), facts(whole));  // nothing left to do
}

TEST(Campaign, AFindingAfterTheLastCommitIsNotLost) {
  const std::string subject = "fault:tail-included";
  const test::TemporaryFolder folder;
  CampaignOptions asked = options(subject, 30);
  asked.folder = folder.path();
  const Summary first = run(subject, asked);
  fs::remove(folder.path() / "progress.jsonl");
  EXPECT_EQ(facts(run(subject, asked)), facts(first));
}

TEST(Campaign, AnotherCampaignInTheFolderIsRefusedByName) {
  const test::TemporaryFolder folder;
  CampaignOptions asked = options("builtin:fused", 5);
  asked.folder = folder.path();
  run("builtin:fused", asked);
  asked.seed = 12;
  try {
    run("builtin:fused", asked);
    FAIL() << "the folder was taken over";
  } catch (const Error& error) {
    EXPECT_EQ(error.exit(), Exit::usage);
    EXPECT_NE(std::string(error.what()).find("seed"), std::string::npos);
  }
}

TEST(Campaign, ADamagedLogIsNamedWithItsLine) {
  const test::TemporaryFolder folder;
  CampaignOptions asked = options("builtin:fused", 5);
  asked.folder = folder.path();
  run("builtin:fused", asked);
  const std::string log = read_file(folder.path() / "progress.jsonl", 1 << 20);
  std::ofstream(folder.path() / "progress.jsonl") << "not json\n" << log;
  try {
    run("builtin:fused", asked);
    FAIL() << "damage went unnoticed";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("progress.jsonl:1"), std::string::npos) << error.what();
  }
}

TEST(Campaign, ASubjectThatDiesOnSomeCallsEndsWithItsSummary) {
  const auto fused = builtin_subject("builtin:fused", {});
  // Dies on problems of one kind in about a hundred.
  const auto mortal = test::meddled(*fused, [](const attest_attention& call, CallResult result) {
    if (call.q.shape[3] % 7 == 3 && call.k.shape[2] % 7 == 1)
      return CallResult{CallStatus::crash, "killed by SIGSEGV", 0};
    return result;
  });
  Observer silent;
  CampaignOptions asked = options("./mortal.so", 250);
  asked.laws.further = 0;  // laws that widen a problem would meet it in problems of other widths
  const Summary summary = run_campaign(*mortal, nullptr, asked, silent);
  EXPECT_EQ(summary.cases, 250u);
  ASSERT_FALSE(summary.findings.empty());
  for (const Finding& finding : summary.findings) {
    EXPECT_EQ(finding.entry.seen, VerdictKind::crash);
    EXPECT_EQ(finding.entry.subject, "external:mortal");
    EXPECT_EQ(finding.entry.problem.as<attest::Problem>().d % 7, 3);
    EXPECT_LE(work_of(finding.entry.problem), 8);
  }
  EXPECT_EQ(summary.exit(), Exit::found);
}

// Deaths that cost: the campaign ends near its time, and tells of each kind all the same.
TEST(Campaign, ASubjectThatIsLongInDyingEndsInTime) {
  const auto fused = builtin_subject("builtin:fused", {});
  const auto slow = test::meddled(*fused, [](const attest_attention& call, CallResult result) {
    if (call.causal == 0) return result;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    std::string kind = "no plan for";
    const auto words = {"one", "two", "four", "eight", "more"};
    for (const Index n : {call.q.shape[2], call.k.shape[2], call.q.shape[3]})
      kind += std::string(" ") + *(words.begin() + (n <= 1 ? 0 : n <= 2 ? 1 : n <= 4 ? 2 : n <= 8 ? 3 : 4));
    return CallResult{CallStatus::error, kind, 0};
  });
  Observer silent;
  CampaignOptions asked = options("./slow.so", 0);
  asked.cases.reset();
  asked.seconds = 4;
  asked.avoid = false;
  asked.laws.further = 0;
  const Summary summary = run_campaign(*slow, nullptr, asked, silent);
  EXPECT_LT(summary.seconds, 4 + 9);
  EXPECT_GT(summary.findings.size(), 5u);
  EXPECT_GT(summary.unshrunk, 0u);
}

TEST(Campaign, WhatDoesNotShowAgainIsFlakyAndNotShrunk) {
  const auto fused = builtin_subject("builtin:fused", {});
  const auto once = std::make_shared<int>(0);
  const auto flaky = test::meddled(*fused, [once](const attest_attention&, CallResult result) {
    return ++*once == 20 ? CallResult{CallStatus::error, "out of luck", 0} : result;
  });
  CampaignOptions asked = options("./flaky.so", 60);
  asked.jobs = 1;
  Observer silent;
  const Summary summary = run_campaign(*flaky, nullptr, asked, silent);
  ASSERT_EQ(summary.findings.size(), 1u);
  EXPECT_EQ(summary.findings[0].entry.seen, VerdictKind::flaky);
  EXPECT_EQ(summary.findings[0].entry.shrink_calls, 0);
  EXPECT_EQ(summary.exit(), Exit::found);
}

TEST(Campaign, ASubjectThatRefusesEverythingIsAnError) {
  const auto fused = builtin_subject("builtin:fused", {});
  const auto lazy = test::meddled(*fused, [](const attest_attention&, CallResult) {
    return CallResult{CallStatus::unsupported, "not today", 0};
  });
  Observer silent;
  const Summary summary = run_campaign(*lazy, nullptr, options("./lazy.so", 50), silent);
  EXPECT_EQ(summary.executed, 0u);
  EXPECT_EQ(summary.exit(), Exit::incomplete);
  EXPECT_EQ(summary.skipped.at("unsupported: not today"), 50u);
  EXPECT_FALSE(summary.emptiness().empty());
}

TEST(Campaign, ASubjectThatRefusesEverythingIsNoLawThatAppliesNowhere) {
  const auto fused = builtin_subject("builtin:fused", {});
  CampaignOptions asked = options("builtin:fused", 50);
  asked.laws.property_glob = "fused-equals-explicit";  // needs a peer
  const auto exit_and_reason = [&](const SubjectFactory& subject) {
    Observer silent;
    const Summary summary = run_campaign(subject, nullptr, asked, silent);
    return std::pair(summary.exit(), summary.emptiness());
  };
  const auto [exit, reason] = exit_and_reason(*fused);
  EXPECT_EQ(exit, Exit::incomplete);
  EXPECT_EQ(reason, "no property applied to any of the problems, mostly because: no explicit kernel beside it");
  const auto lazy = test::meddled(*fused, [](const attest_attention&, CallResult) {
    return CallResult{CallStatus::unsupported, "not today", 0};
  });
  EXPECT_EQ(exit_and_reason(*lazy).second.find("no property applied"), std::string::npos);
}

TEST(Campaign, GuardsAloneAreSomethingToTest) {
  CampaignOptions asked = options("builtin:fused", 50);
  for (const char* guard : {"guards", "result-class"}) {
    asked.laws.property_glob = guard;
    const Summary summary = run("builtin:fused", asked);
    EXPECT_EQ(summary.exit(), Exit::held) << guard;
    EXPECT_EQ(summary.verdicts.at(guard).of(VerdictKind::pass), 50u);
  }
}

TEST(Campaign, TimeEndsIt) {
  CampaignOptions asked = options("builtin:fused", 1);
  asked.cases.reset();
  asked.seconds = 0.3;
  const Summary summary = run("builtin:fused", asked);
  EXPECT_GE(summary.cases, 1u);
  EXPECT_LT(summary.seconds, 30);
}

TEST(Campaign, BadOptionsAreUsageErrors) {
  CampaignOptions asked = options("builtin:fused", 1);
  asked.jobs = 0;
  EXPECT_THROW(run("builtin:fused", asked), Error);
  asked = options("builtin:fused", 1);
  asked.shard = {3, 2};
  EXPECT_THROW(run("builtin:fused", asked), Error);
  asked = options("builtin:fused", 1);
  asked.laws.property_glob = "no-such-law*";
  EXPECT_THROW(run("builtin:fused", asked), Error);
}

TEST(Campaign, AGlobRunsExactlyTheMatchingLaws) {
  CampaignOptions asked = options("builtin:fused", 20);
  asked.laws.property_glob = "batch-*";
  const Summary summary = run("builtin:fused", asked);
  ASSERT_FALSE(summary.verdicts.empty());
  for (const auto& [property, counts] : summary.verdicts) EXPECT_TRUE(property.starts_with("batch-")) << property;
}

}  // namespace
}  // namespace attest::engine
