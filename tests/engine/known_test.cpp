// The defects of a campaign that a corpus knows: by buckets, laws and conditions, not by what there was time to shrink.
#include "engine/known.hpp"

#include <gtest/gtest.h>

namespace attest::engine {
namespace {

const FailureKey bound{"policy-bound", VerdictKind::fail, "finite"}, padded{"pad-keys", VerdictKind::fail, "finite"};

Predicate says(const char* text) { return *predicate_from_text(text, *ops::all_ops().front()); }

Finding finding(const FailureKey& key, const char* problem, const std::string& bucket) {
  Finding found;
  found.entry.subject = "external:mine";
  found.entry.problem = ops::problem_from_text(problem);
  found.entry.property = key.property;
  found.entry.bucket = bucket;
  found.entry.evidence.emplace();
  found.entry.evidence->wrong = Wrong::finite;
  return found;
}

constexpr const char *causal = "b=1 hq=1 hkv=1 lq=3 lk=5 d=4 dv=4 dtype=f32 causal=1 values=normal seed=1",
                     *plain = "b=1 hq=1 hkv=1 lq=3 lk=5 d=4 dv=4 dtype=f32 values=normal seed=1";

// One defect of one finding.
Summary of(const FailureKey& key, const char* problem, const char* predicate, std::uint64_t failing) {
  Summary all;
  all.findings.push_back(finding(key, problem, "another"));
  Defect& defect = all.defects.emplace_back();
  defect.findings = {0};
  defect.key = key;
  if (predicate) defect.predicate = says(predicate);
  defect.counts = {failing, failing, 0, 100};
  return all;
}

Entry entry(const FailureKey& key, const char* problem, const char* predicate, std::uint64_t asked = 20) {
  Entry known = finding(key, problem, "its own").entry;
  if (predicate) known.explained = Explained{key, predicate, {20, asked, 0, 100}};
  return known;
}

bool known(Summary all, const std::vector<Entry>& entries) {
  mark_known(all, entries, attest::Supports::everything());
  EXPECT_EQ(all.defects[0].known, all.findings[0].known);
  return all.defects[0].known;
}

TEST(Known, ByTheConditionOfTheDefect) {
  EXPECT_TRUE(known(of(bound, causal, "causal==1", 20), {entry(bound, causal, nullptr)}));
  EXPECT_FALSE(known(of(bound, causal, "causal==1", 20), {entry(bound, plain, nullptr)}));    // elsewhere
  EXPECT_FALSE(known(of(bound, causal, "causal==1", 20), {entry(padded, causal, nullptr)}));  // another law
  EXPECT_FALSE(known(of(bound, causal, "causal==1", 3), {entry(bound, causal, nullptr)}));    // learned of too little
  EXPECT_FALSE(known(of(bound, causal, nullptr, 20), {entry(bound, causal, nullptr)}));       // no condition
}

TEST(Known, ByTheConditionOfTheEntry) {
  EXPECT_TRUE(known(of(bound, causal, nullptr, 1), {entry(bound, causal, "causal==1")}));
  EXPECT_TRUE(known(of(padded, causal, nullptr, 1), {entry(bound, causal, "causal==1")}));
  EXPECT_FALSE(known(of(bound, causal, nullptr, 1), {entry(padded, causal, "causal==1")}));      // of its own calls
  EXPECT_FALSE(known(of(bound, plain, nullptr, 1), {entry(bound, causal, "causal==1")}));        // does not meet it
  EXPECT_FALSE(known(of(bound, causal, nullptr, 1), {entry(bound, causal, "causal==1", 200)}));  // fails in one of ten
  FailureKey crash = bound;
  crash.kind = VerdictKind::crash;
  EXPECT_FALSE(known(of(crash, causal, nullptr, 1), {entry(bound, causal, "causal==1")}));
  Entry other = entry(bound, causal, "causal==1");
  other.subject = "external:other";
  EXPECT_FALSE(known(of(bound, causal, nullptr, 1), {other}));
}

TEST(Known, ByABucketOfTheDefect) {
  Summary all = of(bound, causal, nullptr, 1);
  all.findings.push_back(finding(bound, plain, "known"));
  all.findings.back().known = true;
  all.defects[0].findings.push_back(1);
  mark_known(all, {}, attest::Supports::everything());
  EXPECT_TRUE(all.defects[0].known);
  EXPECT_EQ(all.exit(), Exit::held);
}

}  // namespace
}  // namespace attest::engine
