// Tests the end of a campaign whose subject costs time. The subject's own work moves the clock, so that no machine
// decides.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <set>
#include <string>
#include <tuple>

#include "engine/campaign.hpp"
#include "engine/failure.hpp"
#include "fake_subject.hpp"
#include "subjects/builtin.hpp"
#include "temporary_folder.hpp"

namespace attest::engine {
namespace {

constexpr double opening = 0.5, plan = 0.06, answer = 0.001;  // seconds

// Work that so many do side by side.
class Work {
 public:
  explicit Work(int jobs) : jobs_(jobs) {}
  void spend(double seconds) { microseconds_ += static_cast<std::int64_t>(seconds * 1e6 / jobs_); }
  [[nodiscard]] double now() const { return static_cast<double>(microseconds_) * 1e-6; }

 private:
  const int jobs_;
  std::atomic<std::int64_t> microseconds_ = 0;
};

std::string size_of(Index n) { return n <= 1 ? "one" : n <= 2 ? "two" : n <= 4 ? "four" : n <= 8 ? "eight" : "more"; }

// A subject like a library on a device: it takes long to open, plans each shape, and three problems in ten end it, in
// the words of their kind.
class Costly {
 public:
  Costly(const SubjectFactory& inner, Work& work) : inner_(inner.open()), work_(work) {}

  CallResult operator()(const attest_attention& call) {
    if (!open_) work_.spend(opening);
    if (!std::exchange(open_, true)) plans_.clear();
    const std::array<Index, 4> shape{call.q.shape[1], call.q.shape[2], call.k.shape[2], call.q.shape[3]};
    if (plans_.insert(shape).second) work_.spend(plan);
    work_.spend(answer);
    if ((7 * shape[1] + 3 * shape[2] + shape[3]) % 10 >= 3) return inner_->run_one(call);
    open_ = false;
    return {CallStatus::error, "no plan for " + size_of(shape[1]) + " " + size_of(shape[2]) + " " + size_of(shape[3]),
            0, true};
  }

 private:
  std::shared_ptr<Subject> inner_;
  Work& work_;
  bool open_ = false;
  std::set<std::array<Index, 4>> plans_;
};

// The keys of the failures that were to be shrunk, and what ends the campaign after so many of them.
class Keys final : public Observer {
 public:
  void on_failure(const RawFailure& failure) override {
    failed.insert(to_text(failure.outcome.key()));
    if (++failures >= interrupted_after && !stop.exchange(true)) stopped_at = work->now();
  }
  std::set<std::string> failed;
  std::size_t failures = 0, interrupted_after = SIZE_MAX;
  const Work* work = nullptr;
  double stopped_at = 0;
  std::atomic<bool> stop = false;
};

struct Ran {
  Summary summary;
  double seconds;
};

Ran run(Work& work, CampaignOptions asked, Observer& observer) {
  const auto fused = builtin_subject("builtin:fused", {});
  const test::FakeFactory subject(fused->info(), [&]() -> test::Answer { return Costly(*fused, work); });
  asked.subject = "./costly.so";
  asked.seed = 3;
  asked.clock = [&work] { return work.now(); };
  const double begin = work.now();
  Summary summary = run_campaign(subject, nullptr, asked, observer);
  return {std::move(summary), work.now() - begin};
}

// The time of the calls that each thread had begun when no more were: a life, a plan and the call, or one trip with all
// calls of a law.
constexpr double in_flight = opening + 12 * (plan + answer);

std::set<std::string> keys_of(const Summary& summary) {
  std::set<std::string> keys;
  for (const Finding& finding : summary.findings) keys.insert(to_text(failure_key_of(finding.entry)));
  return keys;
}

TEST(Allowance, CountsStepsAndNotWhatIsBetweenThem) {
  double now = 5;
  Allowance allowance(2, [&now] { return now; });
  const auto step = [&](double seconds) {
    return allowance.spend([&] {
      now += seconds;
      return allowance.is_spent();
    });
  };
  EXPECT_FALSE(step(1.5));
  now += 100;
  EXPECT_FALSE(allowance.is_spent());
  EXPECT_FALSE(step(0.25));
  EXPECT_TRUE(step(0.5));
  EXPECT_TRUE(step(0)) << "nothing is left";
}

TEST(End, ComesInTimeHoweverLongCallsTakeAndLosesNothing) {
  for (const int jobs : {1, 8}) {
    SCOPED_TRACE(jobs);
    const test::TemporaryFolder folder;
    Work work(jobs);
    Keys keys;
    CampaignOptions asked;
    asked.jobs = jobs;
    asked.seconds = 60;
    asked.folder = folder.path() / "campaign";
    asked.corpus = folder.path() / "corpus";
    const auto [summary, seconds] = run(work, asked, keys);
    EXPECT_GE(seconds, 60);
    EXPECT_LE(seconds, 60 + finishing_seconds + closing_seconds + in_flight);
    EXPECT_GE(keys.failed.size(), 10u);
    EXPECT_GT(summary.unshrunk, 0u);
    const std::set<std::string> told = keys_of(summary);
    EXPECT_TRUE(std::ranges::includes(told, keys.failed));
    for (const Finding& finding : summary.findings) EXPECT_TRUE(std::filesystem::exists(finding.reproducer));

    // The same folder without a limit of time: waiting failures are shrunk, and nothing new is drawn.
    asked.seconds.reset();
    asked.cases = summary.next_case;
    Keys silent;
    const Summary whole = run(work, asked, silent).summary;
    EXPECT_EQ(whole.cases, summary.cases);
    EXPECT_EQ(whole.unshrunk, 0u);
    EXPECT_TRUE(std::ranges::includes(keys_of(whole), keys.failed));
    const auto minimal = [](const Finding& finding) { return finding.entry.minimal; };
    EXPECT_GE(std::ranges::count_if(whole.findings, minimal), std::ranges::count_if(summary.findings, minimal));
  }
}

TEST(End, ComesInTimeAfterAnInterrupt) {
  for (const int jobs : {1, 8}) {
    SCOPED_TRACE(jobs);
    Work work(jobs);
    Keys keys;
    keys.interrupted_after = 12;
    keys.work = &work;
    CampaignOptions asked;
    asked.jobs = jobs;
    asked.interrupt = &keys.stop;
    const auto [summary, seconds] = run(work, asked, keys);
    EXPECT_TRUE(summary.interrupted);
    EXPECT_LE(seconds, keys.stopped_at + finishing_seconds + in_flight);
    EXPECT_TRUE(std::ranges::includes(keys_of(summary), keys.failed));
  }
}

// A call in flight when time is over, and past its own limit later: asked alone after the end, it is a finding if it
// hangs, and slow if it does not.
TEST(End, ACallThatOutlastsTheTimeIsConfirmedAfterIt) {
  const auto fused = builtin_subject("builtin:fused", {});
  for (const int jobs : {1, 4})
    for (const bool hangs : {true, false}) {
      SCOPED_TRACE(testing::Message() << jobs << (hangs ? " hang" : " slow"));
      Work work(1);
      constexpr double time = 0.5;
      const test::FakeFactory subject(fused->info(), [&]() -> test::Answer {
        return [&, inner = std::shared_ptr<Subject>(fused->open())](const attest_attention& call) {
          work.spend(0.01);
          if (call.k.shape[2] <= 8 || (!hangs && work.now() > time)) return inner->run_one(call);
          work.spend(10);
          return CallResult{CallStatus::timeout, "no answer within 10 s", 0};
        };
      });
      Observer silent;
      CampaignOptions asked;
      asked.subject = "./sleeps.so";
      asked.seed = 4;
      asked.jobs = jobs;
      asked.seconds = time;
      asked.laws.further = 0;
      asked.clock = [&work] { return work.now(); };
      const Summary summary = run_campaign(subject, nullptr, asked, silent);
      EXPECT_GT(summary.cases, 0u);
      EXPECT_EQ(summary.exit(), hangs ? Exit::found : Exit::held) << summary.unjudged();
      EXPECT_EQ(summary.slow > 0, !hangs);
      for (const Finding& finding : summary.findings) EXPECT_EQ(finding.entry.seen, VerdictKind::timeout);
    }
}

// Wrong numbers that were seen as time ended, and of which no fresh instance could be asked any more, are told as they
// were seen.
TEST(End, WhatFailedLastIsNotLost) {
  const auto fused = builtin_subject("builtin:fused", {});
  Work work(1);
  const test::FakeFactory subject(fused->info(), [&]() -> test::Answer {
    return [&, inner = std::shared_ptr<Subject>(fused->open())](const attest_attention& call) {
      const CallResult done = inner->run_one(call);
      if (call.k.shape[2] <= 8) return done;
      work.spend(100);
      for (Index i = 0; i < call.out.shape[2]; ++i)
        if (call.out.shape[3] > 0) attest_store(&call.out, 0, 0, i, 0, 12345);
      return done;
    };
  });
  Observer silent;
  CampaignOptions asked;
  asked.subject = "./wrong.so";
  asked.seed = 4;
  asked.seconds = 50;
  asked.laws.further = 0;
  asked.clock = [&work] { return work.now(); };
  const Summary summary = run_campaign(subject, nullptr, asked, silent);
  ASSERT_EQ(summary.findings.size(), 1u);
  EXPECT_EQ(summary.findings.front().entry.seen, VerdictKind::fail);
  EXPECT_FALSE(summary.findings.front().entry.minimal);
  EXPECT_EQ(summary.exit(), Exit::found);
}

// A call that ends an instance is asked for once more, once in each plan; where time ends the campaign, three times and
// then one in four of its kind. 30 % of the plans end one, under no condition that a predicate tells.
TEST(End, WhatEndsInstancesIsNotConfirmedEachTime) {
  const auto fused = builtin_subject("builtin:fused", {});
  for (const auto& [repeat, timed, least, most] :
       {std::tuple{1, false, 2.0, 2.3}, {8, false, 2.0, 2.6}, {1, true, 1.1, 1.5}, {8, true, 1.0, 1.4}}) {
    SCOPED_TRACE(testing::Message() << repeat << " a plan" << (timed ? ", by time" : ""));
    Work work(1);
    std::uint64_t deaths = 0;
    const test::FakeFactory subject(fused->info(), [&]() -> test::Answer {
      return [&, inner = std::shared_ptr<Subject>(fused->open())](const attest_attention& call) {
        work.spend(plan);
        if ((7 * call.q.shape[2] + 3 * call.k.shape[2] + call.q.shape[3]) % 10 >= 3) return inner->run_one(call);
        ++deaths;
        return CallResult{CallStatus::crash, "killed by SIGSEGV", 0};
      };
    });
    Observer silent;
    CampaignOptions asked;
    asked.subject = "./costly.so";
    asked.clock = [&work] { return work.now(); };
    if (timed)
      asked.seconds = 60;
    else
      asked.cases = 400;
    asked.repeat = static_cast<std::uint64_t>(repeat);
    asked.laws.further = 0;
    asked.avoid = false;
    asked.shrink.calls = 0;  // so that the rest of the deaths are those of cases
    const Summary summary = run_campaign(subject, nullptr, asked, silent);
    ASSERT_GT(summary.failing_cases, 100u);
    const double each = static_cast<double>(deaths) / static_cast<double>(summary.failing_cases);
    EXPECT_GE(each, least);
    EXPECT_LE(each, most);
  }
}

// The rest of a plan that ended its instance gives way to other problems, where time ends the campaign.
TEST(End, APlanThatEndsItsInstanceGivesWay) {
  for (const bool timed : {false, true}) {
    SCOPED_TRACE(timed);
    Work work(1);
    CampaignOptions asked;
    if (timed)
      asked.seconds = 60;
    else
      asked.cases = 400;
    asked.repeat = 8;
    asked.laws.further = 0;
    asked.shrink.calls = 0;
    Observer silent;
    const Summary summary = run(work, asked, silent).summary;
    ASSERT_GT(summary.cases, 150u);  // 177 on a machine under load
    const double share = static_cast<double>(summary.failing_cases) / static_cast<double>(summary.cases);
    if (timed)
      EXPECT_LE(share, 0.15);
    else
      EXPECT_GE(share, 0.2);
  }
}

TEST(End, TheFirstCaseIsAskedWhateverItTakes) {
  Work work(2);
  Keys keys;
  CampaignOptions asked;
  asked.jobs = 2;
  asked.seconds = 0.01;
  EXPECT_GE(run(work, asked, keys).summary.cases, 1u);
}

}  // namespace
}  // namespace attest::engine
