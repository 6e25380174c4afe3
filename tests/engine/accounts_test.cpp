#include "engine/explain/accounts.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <memory>

#include "core/tensor.hpp"
#include "engine/cluster.hpp"
#include "engine/inquiry.hpp"
#include "engine/stream.hpp"
#include "fake_subject.hpp"
#include "subjects/builtin.hpp"

namespace attest::engine {
namespace {

using Meddle = std::function<CallResult(const attest_attention&, CallResult)>;

// The fused kernel, which promises f32 and computes its softmax in f16, and whatever else is wrong with it.
std::unique_ptr<SubjectFactory> narrow(const Meddle& meddle = {}) {
  const auto promised = builtin_subject("builtin:fused", {});
  const std::shared_ptr<SubjectFactory> computed = builtin_subject("builtin:fused", "f32,softmax=f16");
  return std::make_unique<test::FakeFactory>(promised->info(), [computed, meddle]() -> test::Answer {
    const std::shared_ptr<Subject> subject = computed->open();
    return [subject, meddle](const attest_attention& call) {
      const CallResult result = subject->run_one(call);
      return meddle ? meddle(call, result) : result;
    };
  });
}

Finding finding_of(const SubjectFactory& subject, const std::string& problem, const std::string& property,
                   const std::string& original = {}) {
  Finding finding;
  Entry& entry = finding.entry;
  entry.subject = "./kernel.so";
  entry.problem = problem_from_text(problem);
  entry.original = original;
  entry.property = property;
  entry.minimal = true;
  entry.seen = VerdictKind::fail;
  entry.evidence.emplace().wrong = Wrong::finite;
  entry.contract = contract_for_problem(subject.info(), std::nullopt, entry.problem);
  entry.bucket = property + ":./kernel.so:" + problem;
  return finding;
}

constexpr const char* small = "b=1 hq=1 hkv=1 lq=1 lk=1 d=1 dv=1 lse=f32 values=normal:1 q_form=one v_form=zero seed=0";
constexpr const char* as_drawn = "b=1 hq=2 hkv=1 lq=3 lk=70 d=16 dv=8 lse=f32 values=normal:1 seed=5";
// A sum of 65,536 weights is past the range of f16, and all that is wrong there is one element.
constexpr const char* long_row =
    "b=1 hq=1 hkv=1 lq=1 lk=65536 d=1 dv=1 values=constant:1 q_form=zero k_form=zero v_form=zero seed=0";
constexpr const char* threaded = "b=1 hq=1 hkv=1 lq=1 lk=4 d=1 dv=1 threads=4 values=normal:1 seed=3";

std::size_t defects(const SubjectFactory& subject, const std::vector<Finding>& findings, bool asked = true) {
  const auto peer = builtin_subject("builtin:explicit", {});
  Station station(subject, peer.get());
  const CaseTable table(subject.info().supports);
  const std::map<std::string, std::string> buckets;
  Allowance allowance(std::numeric_limits<double>::infinity(), machine_seconds);
  Inquiry inquiry(station, findings.front().entry.problem.op(), allowance);
  Evidences known = inquiry.evidences(table, buckets);
  if (!asked) known.accounts = {};
  return cluster(findings, known).size();
}

// Nothing that was learned says that a rare failure of another law is the frequent one; the very numbers do.
TEST(Accounts, AFailureWhoseNumbersTheOtherDefectGivesIsNoDefectOfItsOwn) {
  const auto subject = narrow();
  const std::vector<Finding> findings{finding_of(*subject, small, "policy-bound", as_drawn),
                                      finding_of(*subject, long_row, "mean")};
  EXPECT_EQ(defects(*subject, findings, false), 2u);
  EXPECT_EQ(defects(*subject, findings), 1u);
  // One element alone is given by too many kernels.
  EXPECT_EQ(defects(*subject, {finding_of(*subject, small, "policy-bound"), findings[1]}), 2u);
}

// A second thing that is wrong: where it shows, no softmax in f16 gives the numbers, whether or not that is seen there
// too.
TEST(Accounts, OneWhoseNumbersItDoesNotGiveIs) {
  const auto doubled = [](const attest_attention& call, CallResult result) {
    if (call.threads == 4) store(call.out, 0, 0, 0, 0, 2 * load(call.out, 0, 0, 0, 0));
    return result;
  };
  const auto subject = narrow(doubled);
  for (const char* problem : {threaded, "b=1 hq=1 hkv=1 lq=1 lk=1 d=1 dv=1 threads=4 values=constant:1 seed=0"}) {
    const std::vector<Finding> findings{finding_of(*subject, small, "policy-bound", as_drawn),
                                        finding_of(*subject, problem, "policy-bound")};
    EXPECT_EQ(defects(*subject, findings), 2u) << problem;
  }
}

// Two that give the same numbers on a problem of two keys, and others on the problems that they were drawn as.
TEST(Accounts, WhatTwoDefectsHaveInCommonOnASmallProblemSaysNothing) {
  const auto promised = builtin_subject("builtin:fused", {});
  const std::shared_ptr<SubjectFactory> corner = builtin_subject("fault:causal-corner", {}),
                                        beyond = builtin_subject("fault:causal-off-by-one", {});
  const test::FakeFactory subject(promised->info(), [corner, beyond]() -> test::Answer {
    const std::shared_ptr<Subject> one = corner->open(), other = beyond->open();
    return [one, other](const attest_attention& call) { return (call.threads == 4 ? other : one)->run_one(call); };
  });
  const std::string two_keys = "b=1 hq=1 hkv=1 lq=1 lk=2 d=1 dv=1 causal=1 values=normal:1 seed=1",
                    many = "b=1 hq=1 hkv=1 lq=3 lk=9 d=4 dv=4 causal=1 values=normal:1 seed=1";
  std::vector<Finding> findings{finding_of(subject, two_keys, "policy-bound", many),
                                finding_of(subject, two_keys + " threads=4", "policy-bound", many + " threads=4")};
  EXPECT_EQ(defects(subject, findings), 2u);
  for (Finding& finding : findings) finding.entry.original.clear();
  const auto peer = builtin_subject("builtin:explicit", {});
  Station station(subject, peer.get());
  for (const Finding& finding : findings) {
    const auto accounts = accounts_of(finding.entry, station.bench(), {});
    ASSERT_TRUE(accounts);
    EXPECT_TRUE(accounts->kernels.contains("fault:causal-corner") &&
                accounts->kernels.contains("fault:causal-off-by-one"));
  }
}

TEST(Accounts, NoSubjectIsItsOwn) {
  const auto fault = builtin_subject("fault:scale-missing", {});
  Finding finding = finding_of(*fault, "b=1 hq=1 hkv=1 lq=2 lk=3 d=4 dv=2 values=normal:1 seed=1", "policy-bound");
  const auto peer = builtin_subject("builtin:explicit", {});
  Station station(*fault, peer.get());
  for (const bool own : {true, false}) {
    finding.entry.subject = own ? "fault:scale-missing" : "./kernel.so";
    const auto accounts = accounts_of(finding.entry, station.bench(), {});
    ASSERT_TRUE(accounts);
    EXPECT_EQ(accounts->kernels.contains("fault:scale-missing"), !own);
  }
  finding.entry.problem = problem_from_text("b=1 hq=1 hkv=1 lq=1 lk=1 d=1 dv=1 values=constant:1 seed=0");
  EXPECT_FALSE(accounts_of(finding.entry, station.bench(), {})) << "it does not fail there";
}

}  // namespace
}  // namespace attest::engine
