#include "engine/seen_deaths.hpp"

#include <gtest/gtest.h>

namespace attest::engine {
namespace {

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
    EXPECT_FALSE(ended.is_left(plan, 1));  // the plan drawn in its place
    EXPECT_FALSE(ended.is_left(plan + 1, 0));
  }
  EXPECT_NEAR(left, 175, 15);
}

}  // namespace
}  // namespace attest::engine
