// Who asks a device when, and what need not be asked of it again: by clocks and counts, so that no machine decides.
#include "engine/turns.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "engine/campaign.hpp"
#include "engine/seen_deaths.hpp"
#include "fake_subject.hpp"
#include "subjects/builtin.hpp"

namespace attest::engine {
namespace {

TEST(Turns, AnotherBeginsOnceNobodyHasBegunForAWhile) {
  Turns turns(3, 0.02);
  EXPECT_TRUE(turns.take(1, 0));
  EXPECT_FALSE(turns.take(2, 0.01));
  EXPECT_TRUE(turns.take(1, 0.01));  // its own case is no reason
  EXPECT_FALSE(turns.take(2, 0.025));
  EXPECT_TRUE(turns.take(2, 0.035));
  EXPECT_FALSE(turns.take(1, 0.04));
  turns.end(2);
  EXPECT_TRUE(turns.take(1, 0.04));
  turns.begin(0, 5);  // that far it opens the device
  EXPECT_FALSE(turns.take(2, 4));
  EXPECT_FALSE(turns.take(2, 5.01));
  EXPECT_TRUE(turns.take(2, 5.03));
}

// The most calls under way at once, of eight jobs, by a clock that stands.
int most_at_once(const std::string& device) {
  const auto fused = builtin_subject("builtin:fused", {});
  SubjectInfo info = fused->info();
  info.device = device;
  std::atomic<int> running = 0, most = 0;
  const test::FakeFactory subject(info, [&]() -> test::Answer {
    return [&, inner = std::shared_ptr<Subject>(fused->open())](const attest_attention& call) {
      const int now = ++running;
      for (int seen = most; seen < now && !most.compare_exchange_weak(seen, now);) {
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      const CallResult result = inner->run_one(call);
      --running;
      return result;
    };
  });
  CampaignOptions asked;
  asked.subject = "./on_device.so";
  asked.seed = 3;
  asked.cases = 200;
  asked.jobs = 8;
  asked.clock = [] { return 0.; };
  Observer silent;
  EXPECT_EQ(run_campaign(subject, nullptr, asked, silent).cases, 200u);
  return most;
}

TEST(Turns, JobsOnOneDeviceDoNotAskItAtOnce) {
  EXPECT_LE(most_at_once("gpu:0"), 2);  // the thread that counts waits for nobody
  EXPECT_GT(most_at_once(""), 2);
}

TEST(SeenDeaths, ArePresumedOnceTheirKindWasShownThreeTimes) {
  SeenDeaths deaths;
  const FailureKey key{"guards", VerdictKind::error, "misaligned"}, other{"guards", VerdictKind::crash, "killed"};
  const auto presumed = [&](const FailureKey& of) {
    int times = 0;
    for (std::uint64_t number = 0; number < 400; ++number) times += deaths.presumes(of, number);
    return times;
  };
  deaths.shown(key);
  deaths.shown(key);
  EXPECT_EQ(presumed(key), 0);
  deaths.shown(key);
  EXPECT_NEAR(presumed(key), 300, 30);  // one in four is asked again
  EXPECT_EQ(presumed(other), 0);
  deaths.doubt("layout");
  EXPECT_GT(presumed(key), 0);
  deaths.doubt("guards");
  deaths.shown(key);
  EXPECT_EQ(presumed(key), 0);
}

TEST(PlansEnded, GiveWayButForOneInEight) {
  PlansEnded ended;
  int left = 0;
  for (std::uint64_t plan = 0; plan < 200; ++plan) {
    EXPECT_FALSE(ended.is_left(plan, 0));
    ended.leave(plan, 0);
    left += ended.is_left(plan, 0);
    EXPECT_FALSE(ended.is_left(plan, 1));  // what is drawn in its place
    EXPECT_FALSE(ended.is_left(plan + 1, 0));
  }
  EXPECT_NEAR(left, 175, 15);
}

}  // namespace
}  // namespace attest::engine
