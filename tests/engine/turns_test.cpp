// Tests the turns of jobs at a device beside deaths. The clock stands still, so that no machine decides.
#include "engine/turns.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <tuple>
#include <utility>

#include "engine/campaign.hpp"
#include "engine/shrinker.hpp"
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

// The most calls under way at once, of eight jobs, by a clock that stands: where some die, of those that begin well
// after the first death.
int most_at_once(const std::string& device, bool some_die) {
  const auto fused = builtin_subject("builtin:fused", {});
  SubjectInfo info = fused->info();
  info.device = device;
  std::atomic<int> running = 0, most = 0, since_death = some_die ? -1 : 100;
  const test::FakeFactory subject(info, [&]() -> test::Answer {
    return [&, inner = std::shared_ptr<Subject>(fused->open())](const attest_attention& call) {
      const int now = ++running;
      if (since_death >= 0 && ++since_death > 100)
        for (int seen = most; seen < now && !most.compare_exchange_weak(seen, now);) {
        }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      CallResult result = inner->run_one(call);
      if (some_die && call.causal != 0) {
        int none = -1;
        since_death.compare_exchange_strong(none, 0);
        result = {CallStatus::crash, "killed by SIGSEGV", 0};
      }
      --running;
      return result;
    };
  });
  CampaignOptions asked;
  asked.subject = "./on_device.so";
  asked.seed = 3;
  asked.cases = 300;
  asked.jobs = 8;
  asked.laws.further = 0;
  asked.avoid = false;
  asked.clock = [] { return 0.; };
  Observer silent;
  EXPECT_EQ(run_campaign(subject, nullptr, asked, silent).cases, 300u);
  return most;
}

TEST(Turns, JobsOnOneDeviceDoNotAskItAtOnceBehindADeath) {
  EXPECT_LE(most_at_once("gpu:0", true), 3);  // the thread that counts waits for nobody, and one shrinks
  EXPECT_GT(most_at_once("gpu:0", false), 3);
  EXPECT_GT(most_at_once("", true), 3);
}

ShrinkTask task_of(VerdictKind kind, bool lost) {
  ShrinkTask task;
  task.outcome.laws.push_back({0, {kind, "what it says", {}, {}}, {}, lost});
  task.outcome.reported = 0;
  return task;
}

TEST(Shrinker, WhatEndsInstancesWaitsWhileItIsHeld) {
  const auto fused = builtin_subject("builtin:fused", {});
  for (const auto& [kind, lost, waits] : {std::tuple{VerdictKind::crash, false, true},
                                          {VerdictKind::error, true, true},
                                          {VerdictKind::error, false, false},
                                          {VerdictKind::fail, false, false}}) {
    SCOPED_TRACE(testing::Message() << name(kind) << (lost ? ", lost" : ""));
    std::atomic<int> asked = 0;
    Shrinker shrinker(
        *fused, nullptr,
        [&](const std::function<Bench()>& bench, ShrinkTask task, const std::atomic<bool>&, const auto&) {
          bench().subject.renew();
          ++asked;
          ShrinkResult result;
          result.task = std::move(task);
          return result;
        },
        1);
    shrinker.hold_deaths(true);
    shrinker.submit(task_of(kind, lost));
    shrinker.allow(1);
    shrinker.wait(waits ? 0.05 : 60);
    EXPECT_EQ(asked, waits ? 0 : 1);
    shrinker.hold_deaths(false);
    shrinker.wait(60);
    EXPECT_EQ(asked, 1);
    EXPECT_EQ(shrinker.take_results().size(), 1u);
  }
}

}  // namespace
}  // namespace attest::engine
