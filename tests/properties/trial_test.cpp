// Trial: what is run, counted, watched and thrown; and the list of laws.
#include "properties/trial.hpp"

#include <gtest/gtest.h>

#include <set>

#include "properties/property.hpp"
#include "tests/properties/fake.hpp"

namespace attest {
namespace {

using properties::CallFailed;
using properties::Trial;

const char* const small = "op=attention b=2 hq=2 hkv=1 lq=3 lk=4 d=2 dv=2 dtype=f32 values=normal:1 seed=3";

// A subject whose calls end in one status.
class Ending : public test::Fake {
 public:
  explicit Ending(CallStatus status) : Fake([](const attest_attention&) {}), status_(status) {}
  std::vector<CallResult> run(std::span<const Call> calls) override {
    Fake::run(calls);
    return std::vector<CallResult>(calls.size(), CallResult{status_, "as told", 5});
  }

 private:
  CallStatus status_;
};

TEST(Trial, RunsTheProblemOnceAndCountsCalls) {
  test::Fake subject([](const attest_attention& call) { test::attend(call); });
  Trial trial(problem_from_text(small), test::promise(Format::f32), subject);
  trial.base();
  trial.base();
  EXPECT_EQ(trial.judgement().kind, VerdictKind::pass);
  EXPECT_EQ(trial.subject_calls(), 1);
  const properties::Request twice[] = {{&trial.inputs(), &trial.problem()}, {&trial.inputs(), &trial.problem()}};
  EXPECT_EQ(trial.run_many(twice).size(), 2u);
  EXPECT_EQ(trial.subject_calls(), 3);
  EXPECT_EQ(subject.calls(), 3);
  EXPECT_GT(trial.elapsed().subject, 0);
  EXPECT_GT(trial.elapsed().values, 0);
  EXPECT_GT(trial.elapsed().oracle, 0);
}

TEST(Trial, ACallThatIsNotDoneIsThrownEachTimeAndMadeOnce) {
  for (const CallStatus status : {CallStatus::unsupported, CallStatus::error, CallStatus::crash, CallStatus::timeout}) {
    Ending subject(status);
    Trial trial(problem_from_text(small), test::promise(Format::f32), subject);
    for (int repeat = 0; repeat < 2; ++repeat) try {
        trial.base();
        FAIL();
      } catch (const CallFailed& failed) {
        EXPECT_EQ(failed.result.status, status);
        EXPECT_EQ(failed.result.message, "as told");
      }
    EXPECT_EQ(subject.calls(), 1);
    const properties::Request one[] = {{&trial.inputs(), &trial.problem()}};
    if (status == CallStatus::unsupported)
      EXPECT_EQ(trial.attempt_many(one).front().call.status, status);
    else
      EXPECT_THROW(trial.attempt_many(one), CallFailed);
  }
}

TEST(Trial, WatchesFurtherCallsAndRestoresInputs) {
  int call_number = 0;
  test::Fake subject([&](const attest_attention& call) {
    test::attend(call);
    if (++call_number == 2) store(call.k, 0, 0, 0, 0, 1234);
  });
  Trial trial(problem_from_text(small), test::promise(Format::f32), subject);
  EXPECT_FALSE(trial.base().violation);
  const double before = trial.inputs().k.at(0);
  const properties::Result second = trial.run(trial.inputs(), trial.problem());
  ASSERT_TRUE(second.violation);
  EXPECT_EQ(second.violation->tensor, "k");
  EXPECT_EQ(second.violation->wrong, Wrong::memory);
  EXPECT_EQ(trial.violation()->tensor, "k");
  EXPECT_EQ(trial.inputs().k.at(0), before);
  EXPECT_FALSE(trial.base().violation);
}

TEST(Trial, ThePeerIsNotCounted) {
  test::Fake subject([](const attest_attention& call) { test::attend(call); });
  test::Fake peer([](const attest_attention& call) { test::attend(call); }, "peer");
  Trial trial(problem_from_text(small), test::promise(Format::f32), subject, &peer);
  ASSERT_NE(trial.peer_base(), nullptr);
  trial.peer_base();
  EXPECT_EQ(peer.calls(), 1);
  EXPECT_EQ(trial.subject_calls(), 0);
  EXPECT_EQ(trial.elapsed().subject, 0);
}

TEST(Properties, AreListedOnceInReportingOrder) {
  std::set<std::string_view> names;
  int stage = 0;
  for (const properties::Property& law : properties::properties()) {
    EXPECT_TRUE(names.insert(law.name).second) << law.name;
    EXPECT_FALSE(law.statement.empty() || law.doc.empty());
    EXPECT_EQ(properties::find_property(law.name)->check, law.check);
    if (law.name == "lone-key") continue;                      // after the bound, which explains more
    EXPECT_GE(static_cast<int>(law.kind), stage) << law.name;  // guards, exact, bound, statistical
    stage = static_cast<int>(law.kind);
  }
  EXPECT_EQ(properties::properties().front().name, "guards");
  EXPECT_EQ(properties::find_property("no-such-law"), nullptr);
}

}  // namespace
}  // namespace attest
