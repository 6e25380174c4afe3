// Tests which thread asks a case of a campaign, and in which order cases are counted.
#include "engine/dispatch.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <thread>
#include <vector>

namespace attest::engine {
namespace {

std::vector<std::uint64_t> taken(Dispatch& dispatch) {
  std::vector<std::uint64_t> numbers;
  while (const auto record = dispatch.take()) numbers.push_back(record->number);
  return numbers;
}

TEST(Dispatch, OneThatTakesLongHoldsNobodyUp) {
  Dispatch dispatch(16, 24, 1, {});
  CaseRecord* slow = dispatch.next(false);
  EXPECT_EQ(slow->number, 16u);
  for (std::uint64_t number = 17; number < 24; ++number) {
    CaseRecord* other = dispatch.next(false);
    ASSERT_EQ(other->number, number);
    EXPECT_EQ(dispatch.give_back(other, true), nullptr);
  }
  EXPECT_EQ(dispatch.next(false), nullptr);
  EXPECT_TRUE(taken(dispatch).empty());
  EXPECT_FALSE(dispatch.is_over());
  dispatch.give_back(slow, false);
  EXPECT_TRUE(dispatch.is_over());
  EXPECT_EQ(taken(dispatch), (std::vector<std::uint64_t>{16, 17, 18, 19, 20, 21, 22, 23}));
}

TEST(Dispatch, APlanStaysWithWhoeverHasItUntilItsInstanceEnds) {
  Dispatch dispatch(2, 12, 4, {});  // 2 3 | 4 5 6 7 | 8 9 10 11
  CaseRecord* one = dispatch.next(false);
  CaseRecord* other = dispatch.next(false);
  EXPECT_EQ(one->number, 2u);
  EXPECT_EQ(other->number, 4u);
  one = dispatch.give_back(one, false);
  ASSERT_NE(one, nullptr);
  EXPECT_EQ(one->number, 3u);
  EXPECT_EQ(dispatch.give_back(one, false), nullptr);
  EXPECT_EQ(dispatch.give_back(other, true), nullptr);
  for (const std::uint64_t left : {5, 6, 7}) {  // before new plans, and each by itself
    one = dispatch.next(false);
    ASSERT_EQ(one->number, left);
    EXPECT_EQ(dispatch.give_back(one, false), nullptr);
  }
  EXPECT_EQ(dispatch.next(false)->number, 8u);
  EXPECT_EQ(taken(dispatch), (std::vector<std::uint64_t>{2, 3, 4, 5, 6, 7}));
}

TEST(Dispatch, AShardHasItsOwnPlansAlone) {
  Dispatch dispatch(0, 16, 2, {2, 3});  // has plans 1, 4, 7 of 0 .. 7
  std::set<std::uint64_t> numbers;
  while (CaseRecord* record = dispatch.next(false))
    for (; record != nullptr; record = dispatch.give_back(record, false)) numbers.insert(record->number);
  EXPECT_EQ(numbers, (std::set<std::uint64_t>{2, 3, 8, 9, 14, 15}));
}

TEST(Dispatch, HandsOutNothingOnceStopped) {
  Dispatch dispatch(0, 16, 4, {});
  CaseRecord* record = dispatch.next(false);
  dispatch.stop();
  EXPECT_EQ(dispatch.next(true), nullptr);
  EXPECT_FALSE(dispatch.is_over());
  record->done = true;
  EXPECT_EQ(dispatch.give_back(record, false), nullptr) << "the rest of its plan neither";
  EXPECT_TRUE(dispatch.is_over());
  EXPECT_TRUE(dispatch.take()->done);
  EXPECT_FALSE(dispatch.take().has_value());
}

TEST(Dispatch, GrowsWhileOneTakesLongWhereItMay) {
  Dispatch dispatch(16, 17, 1, {}, Dispatch::Growth{[](std::uint64_t end) { return end + 2; }, 0.001});
  CaseRecord* slow = dispatch.next(true);
  for (std::uint64_t number = 17; number < 23; ++number) {
    CaseRecord* other = dispatch.next(true);
    ASSERT_NE(other, nullptr);
    ASSERT_EQ(other->number, number);
    dispatch.give_back(other, false);
  }
  EXPECT_TRUE(taken(dispatch).empty()) << "still in order";
  dispatch.give_back(slow, false);
  EXPECT_EQ(taken(dispatch), (std::vector<std::uint64_t>{16, 17, 18, 19, 20, 21, 22}));
  while (CaseRecord* left = dispatch.next(false)) dispatch.give_back(left, false);
  EXPECT_TRUE(dispatch.is_over()) << "nobody is waited for any more";
}

TEST(Dispatch, TheOneThatCountsMakesItGrowToo) {
  Dispatch dispatch(16, 17, 1, {}, Dispatch::Growth{[](std::uint64_t end) { return end + 1; }, 10});
  CaseRecord* slow = dispatch.next(false);
  EXPECT_EQ(dispatch.next(false), nullptr);
  dispatch.wait(0.001);
  EXPECT_EQ(dispatch.next(false)->number, 17u);
  dispatch.stop();
  dispatch.give_back(slow, false);
  dispatch.wait(0.001);
  EXPECT_EQ(dispatch.next(true), nullptr) << "not once it was stopped";
}

// A thread without a case waits for one that another may leave. The cases are counted here, each once and in order.
TEST(Dispatch, ThreadsShareAllOfIt) {
  constexpr std::uint64_t cases = 20'000;
  Dispatch dispatch(0, cases, 8, {});
  std::atomic<std::uint64_t> asked = 0;
  std::vector<std::thread> threads;
  for (int n = 0; n < 3; ++n)
    threads.emplace_back([&] {
      while (CaseRecord* record = dispatch.next(true))
        for (; record != nullptr; record = dispatch.give_back(record, record->number % 5 == 0)) ++asked;
    });
  std::uint64_t next = 0;
  while (next < cases) {
    dispatch.wait(0.1);
    for (const std::uint64_t number : taken(dispatch)) ASSERT_EQ(number, next++);
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(asked, cases);
  EXPECT_TRUE(dispatch.is_over());
}

}  // namespace
}  // namespace attest::engine
