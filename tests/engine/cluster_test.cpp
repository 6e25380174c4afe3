#include "engine/cluster.hpp"

#include <gtest/gtest.h>

#include "engine/campaign.hpp"
#include "fake_subject.hpp"
#include "subjects/builtin.hpp"

namespace attest::engine {
namespace {

Summary campaign(const SubjectFactory& subject, const std::string& name, bool avoid = true) {
  CampaignOptions options;
  options.subject = name;
  options.cases = 400;
  options.seed = 2;
  options.jobs = 2;
  options.avoid = avoid;
  const auto peer = builtin_subject("builtin:explicit", std::nullopt);
  Observer silent;
  return run_campaign(subject, peer.get(), options, silent);
}

const Defect* defect_with(const Summary& summary, const std::string& predicate) {
  for (const Defect& defect : summary.defects)
    if (to_text(defect.predicate) == predicate) return &defect;
  return nullptr;
}

TEST(Cluster, TwoDefectsOfOneMessageStayApart) {
  const auto fused = builtin_subject("builtin:fused", std::nullopt);
  const auto subject = test::meddled(*fused, [](const attest_attention& call, CallResult result) {
    const bool long_keys = call.k.shape[2] > 64, capped = call.softcap > 0;
    return long_keys || capped ? CallResult{CallStatus::error, "no such plan", 0} : result;
  });
  const Summary summary = campaign(*subject, "./two.so");
  std::string found;
  for (const Defect& defect : summary.defects)
    found += "\n  " + to_text(defect.predicate) + ", by " + summary.findings[defect.findings.front()].entry.bucket;
  EXPECT_GE(summary.defects.size(), 2u) << found;
  EXPECT_LE(summary.defects.size(), 3u) << found;
  for (const char* predicate : {"lk>=65", "softcap>0"})
    if (const Defect* defect = defect_with(summary, predicate)) {
      EXPECT_EQ(defect->counts.failing, defect->counts.asked) << predicate;
    } else {
      ADD_FAILURE() << predicate << " was not learned, but" << found;
    }
}

TEST(Cluster, OneDefectUnderManyLawsIsOneEntry) {
  for (const char* name : {"fault:scale-missing", "fault:batch-leak", "fault:tail-dropped", "fault:row-empty-nan",
                           "fault:max-init-zero", "fault:bias-broadcast"}) {
    const auto fault = builtin_subject(name, std::nullopt);
    const Summary summary = campaign(*fault, name);
    ASSERT_FALSE(summary.findings.empty()) << name;
    EXPECT_GT(summary.findings.size(), summary.defects.size()) << name;
    EXPECT_LE(summary.defects.size(), 2u) << name;
    std::size_t belonging = 0;
    std::uint64_t failures = 0;
    for (const Defect& defect : summary.defects) {
      belonging += defect.findings.size();
      failures += defect.failures;
      for (const std::size_t i : defect.findings)
        EXPECT_LE(summary.findings[defect.findings.front()].entry.problem.multiply_adds(),
                  summary.findings[i].entry.problem.multiply_adds());
    }
    EXPECT_EQ(belonging, summary.findings.size());
    EXPECT_EQ(failures, summary.failing_cases);
  }
}

}  // namespace
}  // namespace attest::engine
