// repeat and kept-state: each must fail on a fake whose answers differ from call to call, and must not on conforming
// ones.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "core/tensor.hpp"
#include "tests/properties/fake.hpp"

namespace attest {
namespace {

using test::verdict_of;

const char* const plain = "b=3 hq=4 hkv=2 lq=5 lk=7 d=4 dv=3 dtype=f32 scale=0x1p-1 lse=f32 values=normal:1 seed=11";

Verdict run(std::string_view law, const std::string& problem, test::Kernel kernel) {
  test::Fake subject(std::move(kernel));
  return verdict_of(law, problem, subject, test::promise(Format::f32));
}

TEST(Repeat, FailsWhenABitDiffersBetweenCalls) {
  int call_number = 0;
  const Verdict verdict = run("repeat", plain, [&](const attest_attention& call) {
    test::attend(call);
    if (++call_number == 3)
      store(call.out, 1, 2, 3, 1, std::nextafter(static_cast<float>(load(call.out, 1, 2, 3, 1)), 9.0f));
  });
  ASSERT_EQ(verdict.kind, VerdictKind::fail);
  EXPECT_EQ(verdict.evidence->index, (std::array<Index, 4>{1, 2, 3, 1}));
  EXPECT_EQ(verdict.evidence->wrong, Wrong::finite);
}

TEST(Repeat, IsBitwise) {  // +0 and -0 are equal as numbers
  int call_number = 0;
  EXPECT_EQ(run("repeat", plain,
                [&](const attest_attention& call) {
                  test::attend(call);
                  store(call.out, 0, 0, 0, 0, ++call_number == 2 ? -0.0 : 0.0);
                })
                .kind,
            VerdictKind::fail);
}

// The calls that the law makes on a problem of this size and seed, the first one included, if no bit differs.
Index calls_of_repeat(const std::string& sizes, int seed) {
  test::Fake subject([](const attest_attention& call) { test::attend(call); });
  verdict_of("repeat", "b=1 hq=1 hkv=1 " + sizes + " dtype=f32 values=normal:1 seed=" + std::to_string(seed), subject,
             test::promise(Format::f32));
  return subject.calls();
}

TEST(Repeat, AsksOneCheapProblemInEightHundredsOfTimes) {
  int often = 0;
  for (int seed = 0; seed < 80; ++seed) {
    const Index calls = calls_of_repeat("lq=2 lk=3 d=4 dv=4", seed);
    EXPECT_TRUE(calls == 3 || calls == 257) << calls;
    often += calls == 257;
    EXPECT_EQ(calls_of_repeat("lq=64 lk=64 d=4 dv=4", seed), 3);
  }
  EXPECT_GE(often, 4);
  EXPECT_LE(often, 20);
}

TEST(Repeat, FindsARaceThatIsLostOnceInHundredsOfCalls) {
  int found = 0;
  for (int seed = 0; seed < 40; ++seed) {
    int call_number = 0;
    const Verdict verdict =
        run("repeat", "b=1 hq=1 hkv=1 lq=1 lk=2 d=1 dv=1 dtype=f32 values=normal:1 seed=" + std::to_string(seed),
            [&](const attest_attention& call) {
              test::attend(call);
              if (++call_number == 200) store(call.out, 0, 0, 0, 0, -load(call.out, 0, 0, 0, 0));
            });
    found += verdict.kind == VerdictKind::fail;
  }
  EXPECT_GE(found, 2);
}

TEST(Repeat, LeavesTheThreadsAlone) {
  EXPECT_EQ(run("repeat", plain,
                [](const attest_attention& call) {
                  test::attend(call);
                  store(call.out, 0, 0, 0, 0, call.threads);
                })
                .kind,
            VerdictKind::pass);
}

TEST(KeptState, FailsWhenAResultDependsOnTheCallBefore) {
  std::array<Index, 5> before{};  // a plan for the shape of the last call
  const Verdict verdict = run("kept-state", plain, [&](const attest_attention& call) {
    test::attend(call);
    const std::array<Index, 5> shape{call.q.shape[0], call.q.shape[1], call.q.shape[2], call.q.shape[3],
                                     call.k.shape[2]};
    if (before[0] != 0 && before != shape) store(call.out, 0, 0, 0, 0, 5);
    before = shape;
  });
  ASSERT_EQ(verdict.kind, VerdictKind::fail);
  EXPECT_NE(verdict.evidence->note.find("the same call after"), std::string::npos);
}

TEST(KeptState, FailsWhenAWorkspaceKeepsValues) {
  std::vector<double> sums;  // accumulated over calls, one by one forgotten to clear
  EXPECT_EQ(run("kept-state", plain,
                [&](const attest_attention& call) {
                  test::attend(call);
                  sums.push_back(load(call.out, 0, 0, 0, 0));
                  if (sums.size() > 1 && sums.end()[-2] != sums.back()) store(call.out, 0, 0, 0, 0, sums.back() + 1);
                })
                .kind,
            VerdictKind::fail);
}

TEST(KeptState, TheSubjectMayDeclineTheCallsBetween) {
  class OneShape : public test::Fake {
   public:
    OneShape() : Fake([](const attest_attention& call) { test::attend(call); }) {}
    std::vector<CallResult> run(std::span<const Call> calls) override {
      std::vector<CallResult> results;
      for (const Call& each : calls) {
        const auto& call = each.as<attest_attention>();
        const bool known = call.k.shape[2] == 7 && call.q.shape[0] == 3 && call.q.shape[1] == 4 &&
                           call.q.shape[2] == 5 && call.q.shape[3] == 4;
        if (known) Fake::run({&each, 1});
        results.push_back({known ? CallStatus::done : CallStatus::unsupported, known ? "" : "one shape", 0});
      }
      return results;
    }
  } subject;
  const Verdict verdict = verdict_of("kept-state", plain, subject, test::promise(Format::f32));
  EXPECT_EQ(verdict.kind, VerdictKind::pass) << verdict.reason;
}

}  // namespace
}  // namespace attest
