// Parts that lie far apart (Layout::far): a kernel that loses what its offsets have past 32 bits is found by what is
// drawn by default, as one defect, and shrunk.
#include <gtest/gtest.h>

#include <array>
#include <limits>

#include "engine/campaign.hpp"
#include "fake_subject.hpp"
#include "report/observers.hpp"
#include "subjects/builtin.hpp"

namespace attest::engine {
namespace {

using attest::Policy;
using attest::Problem;

// Reads the first index of an axis of q, k or v in place of one whose offset is past 32 bits.
std::unique_ptr<SubjectFactory> narrow(const SubjectFactory& inner) {
  return std::make_unique<test::FakeFactory>(inner.info(), [&inner]() -> test::Answer {
    const std::shared_ptr<Subject> subject = inner.open();
    return [subject](attest_attention call) {
      std::array<std::array<std::int64_t, 4>, 3> strides{};
      attest_tensor* const operands[] = {&call.q, &call.k, &call.v};
      for (std::size_t n = 0; n < 3; ++n) {
        for (std::size_t axis = 0; axis < 4; ++axis) {
          const std::int64_t stride = operands[n]->strides[axis];
          const bool beyond = stride * (operands[n]->shape[axis] - 1) > std::numeric_limits<std::int32_t>::max();
          strides[n][axis] = beyond ? 0 : stride;
        }
        operands[n]->strides = strides[n].data();
      }
      return subject->run_one(call);
    };
  });
}

bool far_apart(const Problem& p) {
  return p.q_layout == Layout::far || p.k_layout == Layout::far || p.v_layout == Layout::far;
}

TEST(FarApart, FindsOffsetsOf32Bits) {
  for (const std::uint64_t seed : {1u, 2u, 3u}) {
    const Policy f32 = policy_from_text("f32");
    const auto inner = builtin_subject("builtin:explicit", to_text(f32));
    CampaignOptions options;
    options.subject = "builtin:explicit";
    options.policy = f32;
    options.cases = 1000;
    options.seed = seed;
    options.jobs = 2;
    Observer silent;
    const Summary summary = run_campaign(*narrow(*inner), nullptr, options, silent);
    ASSERT_FALSE(summary.findings.empty()) << seed;
    EXPECT_EQ(summary.defects.size(), 1u) << seed << "\n" << report::triage_text(summary);
    for (const Finding& finding : summary.findings) {
      const Problem& problem = finding.entry.problem.as<Problem>();
      EXPECT_TRUE(finding.entry.property == "layout" || far_apart(problem)) << to_text(problem);
      EXPECT_LE(problem.multiply_adds(), 64) << to_text(problem);
    }
  }
}

}  // namespace
}  // namespace attest::engine
