// Calibration: the same data on any number of threads, larger for kernels that err more, and no data at all from a kernel
// that breaks its promise. Then what campaigns make of it: tier two, tier three and drift.
#include "engine/calibrate.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "core/json_text.hpp"
#include "engine/campaign.hpp"
#include "fake_subject.hpp"
#include "ops/attention.hpp"
#include "ops/layer_norm.hpp"
#include "subjects/builtin.hpp"

namespace attest::engine {
namespace {

using attest::Contract;
using attest::Policy;
using attest::Problem;
using attest::problem_from_text;

const Policy f16 = policy_from_text("f16");

CalibrateOptions small(int jobs) {
  CalibrateOptions options;
  options.op = &ops::attention_op();
  options.kernel = emulated_kernel;
  options.policies = {f16};
  options.kernels = 4;
  options.cases = 5;
  options.jobs = jobs;
  return options;
}

TEST(Calibrate, DependsOnItsOptionsAlone) {
  const oracle::Calibration one = calibrate(small(1));
  EXPECT_EQ(one, calibrate(small(3)));
  CalibrateOptions other = small(2);
  other.seed = 2;
  EXPECT_NE(one.policies, calibrate(other).policies);
  const oracle::PolicyCalibration& calibrated = one.policies.at("f16");
  std::int64_t results = 0;
  for (const auto& [name, cell] : calibrated.classes) {
    results += cell.results;
    EXPECT_LE(cell.t50, cell.t90) << name;
    EXPECT_LE(cell.t99, cell.t999) << name;  // after a second look, which may find less than the first one's t50
    EXPECT_EQ(cell.t, cell.t999) << name;    // of so few results
    EXPECT_LT(cell.lambda, 4) << name;
    EXPECT_FALSE(cell.results > 0 && cell.worst.empty()) << name;
  }
  EXPECT_GE(results,
            180);  // of 420: rows whose scores are far apart or that see few keys, or too few elements, have no T
  EXPECT_LE(results, 420);
}

// A kernel with more error than others of its policy is larger in T; one that leaves its bound is no calibration at all.
TEST(Calibrate, SeesLargerErrorsAndRefusesKernelsThatBreakTheirPromise) {
  const auto kept_otherwise = [](const char* kept) {
    CalibrateOptions options = small(2);
    options.kernel = [kept](const ops::Policy& policy, std::uint64_t number) {
      EmulatedKernel kernel = emulated_kernel(ops::attention_op().policy_from_text(kept), number);
      kernel.on = [on = kernel.on, policy](const ops::Problem& problem) {
        EmulatedCall call = on(problem);
        call.contract.as<Contract>().policy = policy.as<Policy>();
        return call;
      };
      return kernel;
    };
    return options;
  };
  try {
    calibrate(kept_otherwise("f16,qk=f16,score=f16"));
    FAIL() << "a kernel with scores in f16 passed for one of policy f16";
  } catch (const Error& error) {
    EXPECT_EQ(error.exit(), Exit::internal);
    EXPECT_NE(std::string(error.what()).find("op=attention"), std::string::npos) << error.what();
  }
}

struct Found {
  std::map<std::string, std::uint64_t> warnings;  // by law
  std::optional<Evidence> drift;
  Summary summary;
};

// A campaign of these laws; of none, of what every problem is asked, the statistical tiers among it.
Found hunt(const char* subject, const Policy& policy, const char* laws, std::uint64_t cases, std::int64_t shrink = 1) {
  CampaignOptions options;
  options.subject = subject;
  options.policy = policy;
  options.cases = cases;
  options.jobs = 2;
  options.laws = {.further = 0, .property_glob = laws};
  options.shrink.calls = shrink;
  Observer silent;
  Found found;
  found.summary = run_campaign(*builtin_subject(subject, to_text(policy)), nullptr, options, silent);
  for (const auto& [law, counts] : found.summary.verdicts) found.warnings[law] = counts.of(VerdictKind::warn);
  for (const auto& [of, drift] : found.summary.drift) found.drift = drift.evidence();
  return found;
}

TEST(StatisticalTiers, LeaveConformingKernelsAlone) {
  for (const char* kernel : {"builtin:explicit", "builtin:fused", "builtin:fused-split", "builtin:fused-exp2"})
    for (const char* policy : {"f32", "f16", "bf16"}) {
      const Found found = hunt(kernel, policy_from_text(policy), "", 1500);  // both, on every problem
      EXPECT_TRUE(found.summary.findings.empty()) << kernel << ' ' << policy;
      EXPECT_GE(found.summary.verdicts.at("statistical-bound").of(VerdictKind::pass), 500U);
      ASSERT_EQ(found.summary.drift.size(), 1U);
      EXPECT_GE(found.summary.drift.begin()->second.results, 100);
    }
}

TEST(StatisticalTiers, WarnOfWhatTheProvenBoundPermits) {
  const Found results = hunt("fault:softmax-f16", f16, "aggregate-error", 6000);  // one in fifty is asked
  EXPECT_GE(results.warnings.at("aggregate-error"), 3U);
  EXPECT_TRUE(results.summary.findings.empty());
  const Found elements = hunt("fault:pv-acc-f16", f16, "statistical-bound", 3000);
  EXPECT_GE(elements.warnings.at("statistical-bound"), 3U);
  EXPECT_EQ(elements.summary.exit(), Exit::held);
}

// Errors that are all a little too large: no single result need be beyond its threshold.
TEST(StatisticalTiers, SeeADrift) {
  const Found found = hunt("fault:convert-truncates", f16, "aggregate-error", 3000);
  ASSERT_TRUE(found.drift);
  EXPECT_EQ(found.drift->tensor, "share of T");
  EXPECT_GT(found.drift->got, found.drift->hi);
  EXPECT_EQ(found.summary.exit(), Exit::held);  // a warning
}

TEST(StatisticalTiers, TheEnsembleWarnsToo) {
  const Found found = hunt("fault:pv-acc-f16", f16, "ensemble-error", 400, 200);
  EXPECT_GE(found.summary.verdicts.at("ensemble-error").of(VerdictKind::warn), 1U);
  EXPECT_TRUE(found.summary.findings.empty());
}

// A call that fails stays with the law that asked.
TEST(StatisticalTiers, ACallThatFailsIsAFinding) {
  const auto inner = builtin_subject("builtin:fused", to_text(f16));
  const auto failing = test::meddled(*inner, [](const attest_attention&, CallResult) {
    return CallResult{CallStatus::error, "the device is lost", 0};
  });
  CampaignOptions options;
  options.subject = "builtin:fused";
  options.policy = f16;
  options.cases = 3;
  options.laws.property_glob = "aggregate-error";
  Observer silent;
  const Summary summary = run_campaign(*failing, nullptr, options, silent);
  ASSERT_EQ(summary.findings.size(), 1U);
  EXPECT_EQ(summary.findings.front().entry.property, aggregate_error_name);
}

TEST(StatisticalTiers, SayWhereTheyAreSilent) {
  const Found found = hunt("builtin:fused-truncating", f16, "statistical-bound", 50);
  EXPECT_EQ(found.summary.verdicts.at("statistical-bound").verdicts.size(), 0U);
  EXPECT_NE(found.summary.verdicts.at("statistical-bound").skipped.begin()->first.find("truncate"), std::string::npos)
      << found.summary.verdicts.at("statistical-bound").skipped.begin()->first;
}

TEST(Drift, AsksForManyResultsAndALargeShare) {
  const Problem problem = problem_from_text("lk=2");
  const auto drifted = [&](int results, int above) {
    Drift drift;
    for (int n = 0; n < results; ++n) drift.add({f16, n < above ? 1.1 : 0.5, 1.0, 0.25}, problem);
    return drift;
  };
  EXPECT_FALSE(drifted(99, 99).evidence());
  EXPECT_FALSE(drifted(100, 25).evidence());
  ASSERT_TRUE(drifted(100, 26).evidence());
  EXPECT_NE(drifted(1000, 900).evidence()->note.find("900 of 1000 results"), std::string::npos);
  const DriftByPolicy kept{{"f16", drifted(300, 100)}};
  const DriftByPolicy back = drift_from_json(parse_json(json_text(to_json(kept))));
  EXPECT_EQ(back.at("f16").above, 100);
  EXPECT_EQ(back.at("f16").problem, to_text(problem));
  EXPECT_TRUE(back.at("f16").evidence());
}

}  // namespace
}  // namespace attest::engine
