// The law ensemble-error in campaigns: it leaves conforming kernels of every operation alone, warns of a step in too
// few bits that the proven bound permits, and fails nothing.
#include <gtest/gtest.h>

#include "engine/campaign.hpp"
#include "fake_subject.hpp"
#include "ops/op.hpp"
#include "subjects/builtin.hpp"

namespace attest::engine {
namespace {

Summary asked_of(const SubjectFactory& subject, const char* name, const char* op, const char* policy,
                 std::uint64_t cases) {
  CampaignOptions options;
  options.subject = name;
  options.op = ops::find_op(op);
  options.policy = options.op->policy_from_text(policy);
  options.cases = cases;
  options.jobs = 2;
  options.laws.property_glob = ensemble_error_name;
  Observer silent;
  return run_campaign(subject, nullptr, options, silent);
}

struct Row {
  const char *op, *policy, *sound, *fault;
};

class EnsembleLaw : public testing::TestWithParam<Row> {};

TEST_P(EnsembleLaw, WarnsOfAStepInTooFewBitsAlone) {
  const Row& row = GetParam();
  for (const char* name : {row.sound, row.fault}) {
    const Summary summary = asked_of(*builtin_subject(name, row.policy), name, row.op, row.policy, 200);
    const PropertyCounts& counts = summary.verdicts.at(std::string(ensemble_error_name));
    EXPECT_GE(counts.of(VerdictKind::pass), name == row.sound ? 150U : 1U) << name;
    EXPECT_EQ(counts.of(VerdictKind::warn) > 0, name == row.fault) << name;
    EXPECT_TRUE(summary.findings.empty()) << name;
    EXPECT_EQ(summary.exit(), Exit::held) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Operations, EnsembleLaw,
                         testing::Values(Row{"attention", "f16", "builtin:fused-split", "fault:pv-acc-f16"},
                                         Row{"layer_norm", "f32", "builtin:ln-fused", "fault:ln-bf16-reduce"},
                                         Row{"mha", "f16", "builtin:mha-explicit", "fault:mha-gemm-f16"}));

// A call that fails stays with the law that asked.
TEST(EnsembleLaw, ACallThatFailsIsAFinding) {
  const auto inner = builtin_subject("builtin:fused", "f16");
  const auto failing = test::meddled(*inner, [](const attest_attention&, CallResult) {
    return CallResult{CallStatus::error, "the device is lost", 0};
  });
  const Summary summary = asked_of(*failing, "builtin:fused", "attention", "f16", 3);
  ASSERT_EQ(summary.findings.size(), 1U);
  EXPECT_EQ(summary.findings.front().entry.property, ensemble_error_name);
}

}  // namespace
}  // namespace attest::engine
