// A subject that returns nothing any more ends a campaign, and is one failure: that of the call with which it began.
#include "engine/silence.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>

#include "engine/campaign.hpp"
#include "fake_subject.hpp"
#include "subjects/builtin.hpp"

namespace attest::engine {
namespace {

const CallResult lost{CallStatus::error, "RuntimeError: CUDA error: no CUDA-capable device is detected", 0};

class SilentSubjects : public ::testing::Test {
 protected:
  CampaignOptions options(std::uint64_t cases) const {
    CampaignOptions all;
    all.verb = "fuzz";
    all.subject = "./silent.so";
    all.cases = cases;
    all.jobs = 2;
    return all;
  }
  Summary campaign(const std::function<CallResult(const attest_attention&, CallResult)>& meddle,
                   std::uint64_t cases = 3000) const {
    Observer quiet;
    return run_campaign(*test::meddled(*fused, meddle), nullptr, options(cases), quiet);
  }
  const std::unique_ptr<SubjectFactory> fused = builtin_subject("builtin:fused", {});
};

// Every call after the 200th fails alike, in fresh instances too: shrinking would end at the smallest problem there is.
TEST_F(SilentSubjects, WhatIsLostIsToldByTheCallThatLostIt) {
  std::atomic<int> calls = 0;
  const Summary summary =
      campaign([&](const attest_attention&, CallResult result) { return ++calls > 200 ? lost : result; });
  EXPECT_NE(summary.silent.find("no CUDA-capable device"), std::string::npos) << summary.silent;
  EXPECT_LT(summary.cases, 300u);
  ASSERT_EQ(summary.findings.size(), 1u);
  const Entry& entry = summary.findings[0].entry;
  EXPECT_EQ(entry.seen, VerdictKind::error);
  EXPECT_FALSE(entry.minimal);
  EXPECT_EQ(to_text(entry.problem), entry.original);
  EXPECT_EQ(summary.exit(), Exit::found);
}

// Calls that do not return end alike: one time-out, and one of a fresh instance's smallest problem.
TEST_F(SilentSubjects, WhatHangsForGoodIsAskedOnceMore) {
  std::atomic<int> calls = 0, hung = 0;
  const Summary summary = campaign([&](const attest_attention&, CallResult result) {
    if (++calls <= 200) return result;
    ++hung;
    return CallResult{CallStatus::timeout, "no answer within 10 s", 0};
  });
  EXPECT_FALSE(summary.silent.empty());
  ASSERT_EQ(summary.findings.size(), 1u);
  EXPECT_EQ(summary.findings[0].entry.seen, VerdictKind::timeout);
  EXPECT_LE(hung, 2 * 2);  // two of each job
}

// A kernel that fails nearly everywhere returns something for the smallest problem: the campaign goes on, and its
// failures are shrunk.
TEST_F(SilentSubjects, WhatStillAnswersSomethingIsAskedOn) {
  const Summary summary = campaign(
      [](const attest_attention& call, CallResult result) { return call.k.shape[2] > 4 ? lost : result; }, 400);
  EXPECT_TRUE(summary.silent.empty()) << summary.silent;
  EXPECT_EQ(summary.cases, 400u);
  ASSERT_FALSE(summary.findings.empty());
  EXPECT_EQ(summary.findings[0].entry.problem.as<attest::Problem>().lk, 5);
}

// A subject that never returned anything is silent on every problem: its failure may be shrunk, and a thousand more of
// it say nothing.
TEST_F(SilentSubjects, WhatNeverReturnedIsShrunk) {
  const Summary summary = campaign([](const attest_attention&, const CallResult&) { return lost; });
  EXPECT_FALSE(summary.silent.empty());
  EXPECT_LT(summary.cases, 40u);
  ASSERT_EQ(summary.findings.size(), 1u);
  EXPECT_EQ(summary.findings[0].entry.problem.as<attest::Problem>().lk, 1);
  EXPECT_TRUE(summary.findings[0].entry.minimal);
}

TEST_F(SilentSubjects, RefusalsOfEverythingEndToo) {
  const auto refuses = [](const attest_attention&, const CallResult&) {
    return CallResult{CallStatus::unsupported, "no GPU here", 0};
  };
  const Summary summary = campaign(refuses);
  EXPECT_LT(summary.cases, 1100u);
  EXPECT_TRUE(summary.findings.empty());
  EXPECT_EQ(summary.exit(), Exit::incomplete);
  EXPECT_NE(summary.unjudged().find("no GPU here"), std::string::npos) << summary.unjudged();
  // A subject that took something once may go on to refuse.
  const Summary some =
      campaign([&](const attest_attention& call,
                   CallResult result) { return call.k.shape[2] % 64 == 1 ? result : refuses(call, result); },
               1500);
  EXPECT_TRUE(some.silent.empty()) << some.silent;
  EXPECT_EQ(some.cases, 1500u);
}

}  // namespace
}  // namespace attest::engine
