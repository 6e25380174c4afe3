// The statistical laws of layer_norm: conforming kernels at the edges of their contracts are not blamed, whole campaigns of one kernel
// do not drift, planted faults that no interval sees are found, and the laws say where they are silent.
//
// ATTEST_LAYER_NORM_ELEMENTS (400000) is how many elements the laws are asked of, ATTEST_LAYER_NORM_SEED (11) of which problems, and
// ATTEST_LAYER_NORM_KERNELS (24) how many kernels have a campaign.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "core/layer_norm/call.hpp"
#include "core/layer_norm/inputs.hpp"
#include "core/rng.hpp"
#include "engine/calibrate.hpp"
#include "engine/campaign.hpp"
#include "engine/check.hpp"
#include "engine/grade/emulated.hpp"
#include "engine/stream.hpp"
#include "kernels/layer_norm/emulated/draw.hpp"
#include "ops/attention.hpp"
#include "ops/layer_norm.hpp"
#include "oracle/layer_norm/calibration.hpp"
#include "subjects/builtin.hpp"
#include "tests/engine/statistics.hpp"
#include "tests/setting.hpp"

namespace attest::engine {
namespace {

namespace emulated = attest::emulator::layer_norm;
using attest::layer_norm::materialise;
using emulated::Defect;
using OwnContract = attest::layer_norm::Contract;
using OwnProblem = attest::layer_norm::Problem;

using test::AnsweringFactory;
using test::verdict_of;

const test::StatisticalLaws laws(ops::layer_norm_op());
const Op& op = laws.op;

SubjectInfo info_of(const std::string& policy) { return builtin_subject("builtin:ln-explicit", policy)->info(); }

std::unique_ptr<Domain> domain_of(const SubjectInfo& info, bool spoken_of, Index most) {
  return laws.domain(info, [spoken_of, most](const Problem& problem) {
    const auto& own = problem.as<OwnProblem>();
    return own.elements() <= most && (!spoken_of || !oracle::layer_norm::outputs_alike(own));
  });
}

TEST(LayerNormStatistics, NoConformingKernelIsBlamed) {
  const std::uint64_t elements = setting("ATTEST_LAYER_NORM_ELEMENTS", 400'000),
                      seed = setting("ATTEST_LAYER_NORM_SEED", 11);
  struct Tally {
    std::int64_t elements = 0;
    std::uint64_t results = 0, blamed = 0;
    std::map<std::size_t, std::uint64_t> spoke;
  };
  for (const char* name : {"f32", "f16", "bf16", "f16-all", "bf16-all"}) {
    const Policy policy = op.policy_from_text(name);
    const SubjectInfo info = info_of(name);
    // As campaigns draw them: any values; those that the tiers speak of; and long ones of these.
    const auto any = domain_of(info, false, 1 << 13), alike = domain_of(info, true, 1 << 13),
               large = domain_of(info, true, 1 << 18);
    Tally tally;
    for (std::uint64_t n = 0; static_cast<std::uint64_t>(tally.elements) < elements / 5; ++n) {
      const Domain& domain = n % 200 == 0 ? *large : n % 4 == 0 ? *any : *alike;
      const Problem problem = domain.draw(seed, n, 1).problem;
      const EmulatedCall kernel = laws.spoken_of(policy, extend(mix(seed), n)).on(problem);
      const auto subject = answering(kernel, info);
      const CaseOutcome outcome = laws.asked(problem, kernel.contract, *subject);
      for (const LawVerdict& law : outcome.laws) {
        EXPECT_FALSE(is_finding(law.verdict.kind) || law.verdict.kind == VerdictKind::warn)
            << all_laws()[law.law].name << ' ' << name << " kernel " << extend(mix(seed), n) << ' ' << to_text(problem)
            << (law.verdict.evidence ? law.verdict.evidence->note : law.verdict.reason);
        if (law.verdict.kind == VerdictKind::pass) ++tally.spoke[law.law];
      }
      if (verdict_of(outcome, laws.spread).kind == VerdictKind::pass)
        tally.elements += static_cast<std::int64_t>(work_of(problem));
      ++tally.results;
    }
    EXPECT_GT(tally.spoke[laws.spread] * 4, tally.results) << name;
    EXPECT_EQ(tally.spoke[laws.aggregate] > 0, std::string_view(name) == "f32") << name;  // 16-bit out has no T
    fmt::print("{:9} {:7} results, {:9} elements of those that statistical-bound spoke of, {} of aggregate-error\n",
               name, tally.results, tally.elements, tally.spoke[laws.aggregate]);
  }
}

// One kernel on many problems, its root at one end of what it may be off.
TEST(LayerNormStatistics, NoConformingKernelDrifts) {
  const Policy policy = op.policy_from_text("f32");
  const SubjectInfo info = info_of("f32");
  const auto domain = domain_of(info, true, 1 << 12);
  double most = 0;
  for (std::uint64_t number = 0; number < setting("ATTEST_LAYER_NORM_KERNELS", 24); ++number) {
    const EmulatedKernel kernel = laws.spoken_of(policy, extend(77, number));
    Drift drift;
    for (std::uint64_t n = 0; drift.results < 120; ++n) {
      const Problem problem = domain->draw(5, n, 1).problem;
      const EmulatedCall call = kernel.on(problem);
      const auto subject = answering(call, info);
      const CaseOutcome outcome = laws.asked(problem, call.contract, *subject);
      if (outcome.aggregate) drift.add(*outcome.aggregate, problem);
    }
    EXPECT_FALSE(drift.evidence()) << number << ": " << drift.above << " of " << drift.results;
    most = std::max(most, static_cast<double>(drift.above) / static_cast<double>(drift.results));
  }
  fmt::print("the largest share of a kernel's results above the 99 % of their class: {:.2f}\n", most);
}

std::function<void(const Call&)> planted(Defect defect, const OwnContract& contract, bool fma) {
  return [=](const Call& asked) {
    const auto& call = asked.as<attest_layer_norm>();
    attest::layer_norm::Inputs inputs;
    const auto tensor_of = [](const attest_tensor& from) {
      Tensor tensor(*dtype_of(from.dtype), std::span(from.shape, static_cast<std::size_t>(from.ndim)));
      for (Index i = 0; i < from.shape[0]; ++i)
        for (Index j = 0; j < (from.ndim > 1 ? from.shape[1] : 1); ++j) tensor.set(i, j, 0, 0, load(from, i, j));
      return tensor;
    };
    inputs.x = tensor_of(call.x);
    if (attest_present(&call.gamma)) inputs.gamma = tensor_of(call.gamma);
    if (attest_present(&call.beta)) inputs.beta = tensor_of(call.beta);
    inputs.epsilon = call.epsilon;
    Tensor out(inputs.x.dtype(), inputs.x.shape()), none;
    emulated::Scheme scheme;
    scheme.fma = fma;
    scheme.defect = defect;
    emulated::run(inputs, contract, scheme, out, none);
    for (Index i = 0; i < out.shape()[0]; ++i)
      for (Index j = 0; j < out.shape()[1]; ++j) store(call.out, i, j, 0, 0, out.at(i, j));
  };
}

struct Row {
  const char *policy, *problem;
  Defect defect;
};

// Each keeps its intervals on every one of 40 problems, and the statistical tiers warn of most; of the same kernel without the fault, of none.
TEST(LayerNormStatistics, FindFaultsThatNoIntervalSees) {
  for (const Row& row : {Row{"f32", "rows=16 hidden=1024 offset=100 epsilon=1e-5", Defect::no_epsilon},
                         Row{"f32", "rows=16 hidden=1024 offset=100 epsilon=1e-5", Defect::epsilon_outside},
                         Row{"f32", "rows=16 hidden=1024 offset=100", Defect::count_less_one},
                         Row{"f16", "rows=16 hidden=1024 dtype=f16 epsilon=1e-5", Defect::no_epsilon}}) {
    const SubjectInfo info = info_of(row.policy);
    const Contract contract = op.grading()->silent(op.policy_from_text(row.policy));
    int found = 0, proven = 0, blamed = 0;
    for (int n = 0; n < 40; ++n) {
      Problem problem = problem_from_text("op=layer_norm " + std::string(row.problem));
      problem.as<OwnProblem>().seed = static_cast<std::uint64_t>(n) + 1;
      for (const Defect defect : {row.defect, Defect::none}) {
        const EmulatedCall kernel{contract, planted(defect, contract.as<OwnContract>(), n % 2 == 0)};
        const auto subject = answering(kernel, info);
        const CaseOutcome outcome = laws.asked(problem, contract, *subject);
        const bool seen = verdict_of(outcome, laws.spread).kind == VerdictKind::warn ||
                          verdict_of(outcome, laws.aggregate).kind == VerdictKind::warn;
        proven += is_finding(verdict_of(outcome, laws.bound).kind);
        (defect == Defect::none ? blamed : found) += seen;
      }
    }
    EXPECT_EQ(proven, 0) << row.problem;
    EXPECT_EQ(blamed, 0) << row.problem;
    EXPECT_GE(found, 36) << row.policy << ' ' << row.problem << ' ' << static_cast<int>(row.defect);
  }
}

CampaignOptions campaign_of(const char* assume) {
  CampaignOptions options;
  options.op = &op;
  options.policy = op.policy_from_text("f32");
  options.cases = 400;
  options.laws.further = 0;
  options.assume = Assumption(assume, op);
  options.shrink.calls = 200;
  options.continue_after_failure = true;
  return options;
}

// A campaign warns of a kernel that leaves out epsilon, where no interval sees it, and has no finding.
TEST(LayerNormStatistics, ACampaignWarnsOfALostEpsilon) {
  const OwnContract contract = op.grading()->silent(op.policy_from_text("f32")).as<OwnContract>();
  CampaignOptions options = campaign_of(
      "values==normal && offset>50 && offset<200 && hidden>=512 && epsilon>1e-8 && epsilon<2e-5 "
      "&& norm==layer && residual==none && amplitude==1");
  Observer silent;
  for (const Defect defect : {Defect::no_epsilon, Defect::none}) {
    const AnsweringFactory factory(info_of("f32"), {contract, planted(defect, contract, true)});
    const Summary summary = run_campaign(factory, nullptr, options, silent);
    EXPECT_EQ(summary.verdicts.at("aggregate-error").of(VerdictKind::warn) > 0, defect != Defect::none);
    if (defect == Defect::none) {
      EXPECT_TRUE(summary.findings.empty());
    }
  }
}

// Every root a little too large, within the threshold of a single result: a warning.
TEST(LayerNormStatistics, ACampaignSeesErrorsThatAreAllALittleTooLarge) {
  const auto kernel = builtin_subject("builtin:ln-explicit", "f32");
  const std::shared_ptr<Subject> inner = kernel->open();
  CampaignOptions options = campaign_of("values==normal && offset==0 && residual==none && beta==none && hidden>=64");
  options.cases = 1500;
  Observer silent;
  for (const double scale : {1 + 0x1p-22, 1.0}) {
    const auto scaled = [inner, scale](const Call& asked) {
      inner->run_one(asked);
      const attest_tensor& out = asked.as<attest_layer_norm>().out;
      for (Index i = 0; i < out.shape[0]; ++i)
        for (Index j = 0; j < out.shape[1]; ++j) store(out, i, j, 0, 0, load(out, i, j) * scale);
    };
    const AnsweringFactory factory(kernel->info(), {op.grading()->silent(op.policy_from_text("f32")), scaled});
    const Summary summary = run_campaign(factory, nullptr, options, silent);
    ASSERT_EQ(summary.drift.size(), 1u);
    EXPECT_EQ(summary.drift.at("f32").evidence().has_value(), scale != 1);
    EXPECT_GE(summary.drift.at("f32").results, 100);
    if (scale == 1) {
      EXPECT_TRUE(summary.findings.empty());
    }
  }
}

TEST(LayerNormStatistics, SayWhereTheyAreSilent) {
  struct Silence {
    const char *policy, *promise, *problem;
    bool elements, aggregate;  // whether each speaks
    const char* why;
  };
  for (const Silence& row : {
           Silence{"f32", "{}", "rows=4 hidden=256", true, true, ""},
           Silence{"f32", R"({"kappa":3})", "rows=4 hidden=256", false, false, "truncate"},
           Silence{"f32", R"({"flush_to_zero":true})", "rows=4 hidden=256", false, false, "flush-to-zero"},
           Silence{"f64", "{}", "rows=4 hidden=256 dtype=f64", false, false, "f64"},
           Silence{"f16", "{}", "rows=4 hidden=256 dtype=f16", true, false, "16-bit"},
           Silence{"f32,statistics=bf16", "{}", "rows=4 hidden=256", false, false, "not calibrated: "},
           Silence{"f32", "{}", "rows=4 hidden=8", false, false, "fewer than 48"},
           Silence{"f32", "{}", "rows=4 hidden=256 values=integers", false, false, "alike"},
           Silence{"f32", "{}", "rows=4 hidden=256 values=outlier", false, false, "alike"},
           Silence{"f32", "{}", "rows=4 hidden=256 residual=cancelling", false, false, "alike"},
           Silence{"f32", "{}", "rows=4 hidden=256 norm=rms offset=100", false, false, "alike"},
           Silence{"f32", "{}", "rows=4 hidden=256 offset=100", true, true, ""},
           Silence{"f32", "{}", "rows=4 hidden=256 offset=4096", false, false, "alike"},
           Silence{"bf16", "{}", "rows=4 hidden=256 dtype=bf16 offset=0.125", false, false, "alike"},
           Silence{"f32", "{}", "rows=1 hidden=65536", true, true, ""},
       }) {
    const std::string text = std::string(row.policy) + ' ' + row.promise + ' ' + row.problem;
    const Contract contract =
        op.contract_from_json(nlohmann::json::parse(row.promise), op.policy_from_text(row.policy));
    const auto subject = builtin_subject("builtin:ln-explicit", row.policy)->open();
    const CaseOutcome outcome =
        laws.asked(problem_from_text("op=layer_norm " + std::string(row.problem)), contract, *subject);
    const Verdict &elements = verdict_of(outcome, laws.spread), &whole = verdict_of(outcome, laws.aggregate);
    EXPECT_EQ(elements.kind == VerdictKind::pass, row.elements) << text << ": " << elements.reason;
    EXPECT_EQ(whole.kind == VerdictKind::pass, row.aggregate) << text << ": " << whole.reason;
    EXPECT_NE((row.elements ? whole : elements).reason.find(row.why), std::string::npos)
        << text << ": " << elements.reason << "; " << whole.reason;
  }
}

TEST(LayerNormStatistics, CalibrationDependsOnItsOptionsAloneAndIsReadBack) {
  const oracle::Calibration one = test::expect_calibration_of_its_options_alone(laws.small_calibration("f32", 6, 20));
  EXPECT_THROW(oracle::calibration_from_text(oracle::to_file_text(one), "x"),
               Error);  // which reads those of another operation
}

// A kernel that leaves its intervals is no calibration at all.
TEST(LayerNormStatistics, CalibrationRefusesAKernelThatBreaksItsPromise) {
  CalibrateOptions options = laws.small_calibration("f32", 6, 20);
  options.kernel = test::spoilt([](const Call& asked) {
    const attest_tensor& out = asked.as<attest_layer_norm>().out;
    store(out, 0, 0, 0, 0, load(out, 0, 0) * 1.5 + 1);
  });
  EXPECT_THROW(calibrate(options), Error);
}

TEST(LayerNormStatistics, DataOfAnotherOperationAreNotUsed) {
  const auto subject = builtin_subject("builtin:ln-explicit", "f32")->open();
  test::expect_data_of_others_unused(laws, *subject, problem_from_text("op=layer_norm rows=4 hidden=256"));
}

}  // namespace
}  // namespace attest::engine
