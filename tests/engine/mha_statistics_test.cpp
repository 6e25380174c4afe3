// The statistical laws of mha: conforming blocks at the edges of their contracts are not blamed, whole campaigns of one block do not
// drift, planted errors of precision that no interval sees are found, and the laws say where they are silent.
//
// ATTEST_MHA_ELEMENTS (150000) is how many outputs the laws are asked of, ATTEST_MHA_SEED (11) of which problems, and
// ATTEST_MHA_KERNELS (16) how many blocks have a campaign.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "core/mha/call.hpp"
#include "core/mha/inputs.hpp"
#include "core/rng.hpp"
#include "engine/calibrate.hpp"
#include "engine/campaign.hpp"
#include "engine/check.hpp"
#include "engine/grade/emulated.hpp"
#include "engine/stream.hpp"
#include "kernels/mha/emulated.hpp"
#include "ops/mha.hpp"
#include "oracle/mha/calibration.hpp"
#include "subjects/builtin.hpp"
#include "tests/engine/statistics.hpp"
#include "tests/setting.hpp"

namespace attest::engine {
namespace {

using attest::emulator::BlockDefect;
using attest::emulator::BlockVariant;
using OwnContract = attest::mha::Contract;
using OwnProblem = attest::mha::Problem;

using test::AnsweringFactory;
using test::verdict_of;

// What a subject keeps references to is no temporary.
template <class Kernel, class Info>
concept answers = requires(Kernel&& kernel, Info&& info) {
  answering(std::forward<Kernel>(kernel), std::forward<Info>(info));
};
static_assert(answers<const EmulatedCall&, const SubjectInfo&>);
static_assert(!answers<EmulatedCall, const SubjectInfo&> && !answers<const EmulatedCall&, SubjectInfo>);

const test::StatisticalLaws laws(ops::mha_op());
const Op& op = laws.op;

SubjectInfo info_of(const std::string& policy) { return builtin_subject("builtin:mha-explicit", policy)->info(); }

std::unique_ptr<Domain> domain_of(const SubjectInfo& info, bool spoken_of, Index most) {
  return laws.domain(info, [spoken_of, most](const Problem& problem) {
    const auto& own = problem.as<OwnProblem>();
    return own.multiply_adds() <= most && (!spoken_of || !oracle::outputs_alike(own));
  });
}

TEST(MhaStatistics, NoConformingBlockIsBlamed) {
  const std::uint64_t elements = setting("ATTEST_MHA_ELEMENTS", 150'000), seed = setting("ATTEST_MHA_SEED", 11);
  struct Tally {
    std::int64_t elements = 0;
    std::uint64_t results = 0;
    std::map<std::size_t, std::uint64_t> spoke;
  };
  for (const char* name : {"f32", "f16", "bf16", "f16-acc16", "f16-softmax16", "bf16-all"}) {
    const Policy policy = op.policy_from_text(name);
    const SubjectInfo info = info_of(name);
    // As campaigns draw them: any weights; those that the tiers speak of; and long ones of these.
    const auto any = domain_of(info, false, 1 << 15), dense = domain_of(info, true, 1 << 15),
               large = domain_of(info, true, 1 << 19);
    Tally tally;
    for (std::uint64_t n = 0; static_cast<std::uint64_t>(tally.elements) < elements / 6; ++n) {
      const Domain& domain = n % 200 == 0 ? *large : n % 8 == 0 ? *any : *dense;
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
      const auto& own = problem.as<OwnProblem>();
      if (verdict_of(outcome, laws.spread).kind == VerdictKind::pass) tally.elements += own.b * own.l * own.e;
      ++tally.results;
    }
    EXPECT_GT(tally.spoke[laws.spread] * 4, tally.results) << name;
    EXPECT_GT(tally.spoke[laws.aggregate], 0u) << name;
    fmt::print("{:12} {:7} results, {:9} outputs of those that statistical-bound spoke of, {} of aggregate-error\n",
               name, tally.results, tally.elements, tally.spoke[laws.aggregate]);
  }
}

// One block on many problems, its functions at one end of what they may be off.
TEST(MhaStatistics, NoConformingBlockDrifts) {
  for (const char* name : {"f32", "f16"}) {
    const Policy policy = op.policy_from_text(name);
    const SubjectInfo info = info_of(name);
    const auto domain = domain_of(info, true, 1 << 14);
    double most = 0;
    for (std::uint64_t number = 0; number < setting("ATTEST_MHA_KERNELS", 16) / 2; ++number) {
      const EmulatedKernel kernel = laws.spoken_of(policy, extend(77, number));
      Drift drift;
      for (std::uint64_t n = 0; drift.results < 120 && n < 1000; ++n) {
        const Problem problem = domain->draw(5, n, 1).problem;
        const EmulatedCall call = kernel.on(problem);
        const auto subject = answering(call, info);
        const CaseOutcome outcome = laws.asked(problem, call.contract, *subject);
        if (outcome.aggregate) drift.add(*outcome.aggregate, problem);
      }
      EXPECT_FALSE(drift.evidence()) << number << ": " << drift.above << " of " << drift.results;
      EXPECT_GE(drift.results, 100);
      most = std::max(most, static_cast<double>(drift.above) / static_cast<double>(drift.results));
    }
    fmt::print("{}: the largest share of a block's results above the 99 % of their class: {:.2f}\n", name, most);
  }
}

// A block in emulated arithmetic that sums from the first term on.
std::function<void(const Call&)> planted(BlockDefect defect, const OwnContract& contract, std::uint64_t seed) {
  return [=](const Call& asked) {
    const attest::mha::Call call = attest::mha::from_plugin(asked.as<attest_mha>());
    OwnProblem problem;
    problem.scale = call.scale;
    BlockVariant variant = emulator::draw_block_variant(contract, problem, seed);
    variant.in = variant.out = emulator::Sums{};
    variant.in.fma = variant.out.fma = seed % 2 == 0;
    variant.defect = defect;
    emulator::run(call, contract, variant);
  };
}

struct Row {
  const char *policy, *problem;
  BlockDefect defect;
  int found;    // of 20 problems, at least
  bool unseen;  // no interval sees it
};

// The same block without the error is blamed in none.
TEST(MhaStatistics, FindErrorsOfPrecisionThatNoIntervalSees) {
  for (const Row& row : {
           Row{"f16", "l=16 m=16 e=64 heads=4 kv_heads=4 head_dim=16", BlockDefect::gemm_16, 19, false},
           Row{"f16", "l=16 m=16 e=64 heads=4 kv_heads=4 head_dim=16", BlockDefect::gemm_out_16, 19, false},
           Row{"f16", "l=8 m=8 e=256 heads=4 kv_heads=4 head_dim=64", BlockDefect::gemm_16, 19, true},
           Row{"f16", "l=8 m=8 e=256 heads=4 kv_heads=4 head_dim=64", BlockDefect::gemm_out_16, 19, true},
           Row{"bf16", "l=16 m=16 e=64 heads=4 kv_heads=4 head_dim=16", BlockDefect::gemm_16, 19, false},
           Row{"bf16", "l=16 m=16 e=64 heads=4 kv_heads=4 head_dim=16", BlockDefect::gemm_out_16, 19, false},
           Row{"f16", "l=16 m=16 e=64 heads=4 kv_heads=4 head_dim=16", BlockDefect::softmax_16, 8, true},
           Row{"bf16", "l=16 m=16 e=64 heads=4 kv_heads=4 head_dim=16", BlockDefect::softmax_16, 8, true},
       }) {
    const SubjectInfo info = info_of(row.policy);
    const Contract contract = op.grading()->silent(op.policy_from_text(row.policy));
    int found = 0, proven = 0, blamed = 0, by_lambda = 0;
    for (int n = 0; n < 20; ++n) {
      Problem problem =
          problem_from_text("op=mha weights=dense self=1 dtype=" + std::string(row.policy) + ' ' + row.problem);
      problem.as<OwnProblem>().seed = static_cast<std::uint64_t>(n) + 1;
      for (const BlockDefect defect : {row.defect, BlockDefect::none}) {
        const EmulatedCall kernel{contract, planted(defect, contract.as<OwnContract>(), static_cast<std::uint64_t>(n))};
        const auto subject = answering(kernel, info);
        const CaseOutcome outcome = laws.asked(problem, contract, *subject);
        const bool of_bound = is_finding(verdict_of(outcome, laws.bound).kind);
        const bool elements = verdict_of(outcome, laws.spread).kind == VerdictKind::warn,
                   whole = verdict_of(outcome, laws.aggregate).kind == VerdictKind::warn;
        if (defect == BlockDefect::none) {
          blamed += of_bound || elements || whole;
          continue;
        }
        proven += of_bound;
        by_lambda += elements && !of_bound;
        found += of_bound || elements || whole;
      }
    }
    fmt::print("{} {} defect {}: intervals {}, lambda beside {}, any {} of 20\n", row.policy, row.problem,
               static_cast<int>(row.defect), proven, by_lambda, found);
    EXPECT_EQ(blamed, 0) << row.problem;
    EXPECT_GE(found, row.found) << row.policy << ' ' << row.problem << ' ' << static_cast<int>(row.defect);
    if (row.unseen) {
      EXPECT_EQ(proven, 0) << row.policy << ' ' << row.problem << ' ' << static_cast<int>(row.defect);
    }
  }
}

CampaignOptions campaign_of(const char* assume) {
  CampaignOptions options;
  options.op = &op;
  options.policy = op.policy_from_text("f16");
  options.cases = 30;
  options.laws.further = 0;
  options.assume = Assumption(assume, op);
  options.shrink.calls = 100;
  options.continue_after_failure = true;
  return options;
}

// A campaign warns of a last product in f16, where no interval sees it, and has no finding.
TEST(MhaStatistics, ACampaignWarnsOfAProductInTooFewBits) {
  const OwnContract contract = op.grading()->silent(op.policy_from_text("f16")).as<OwnContract>();
  CampaignOptions options = campaign_of(
      "weights==dense && amplitude==1 && e>=64 && e<=128 && heads>=4 && heads<=8 && head_dim>=16 && head_dim<=32 "
      "&& l>=8 && l<=16 && m>=8 && m<=16 && padding==none && bias==none && !causal");
  Observer silent;
  for (const BlockDefect defect : {BlockDefect::gemm_out_16, BlockDefect::none}) {
    SubjectInfo info = info_of("f16");
    std::ranges::fill(info.mha->contracts, contract);  // as who promises nothing beside a policy
    const AnsweringFactory factory(info, {contract, planted(defect, contract, 3)});
    const Summary summary = run_campaign(factory, nullptr, options, silent);
    std::uint64_t warnings = 0;
    for (const char* law : {"statistical-bound", "aggregate-error"})
      warnings += summary.verdicts.at(law).of(VerdictKind::warn);
    EXPECT_EQ(warnings > 0, defect != BlockDefect::none);
    if (defect == BlockDefect::none) {
      EXPECT_TRUE(summary.findings.empty());
    }
  }
}

TEST(MhaStatistics, SayWhereTheyAreSilent) {
  const std::string shape = "l=16 m=16 e=32 heads=2 kv_heads=2 head_dim=16 ";
  struct Silence {
    const char *policy, *promise, *problem;
    bool speaks;
    const char* why;
  };
  for (const Silence& row : {
           Silence{"f32", "{}", "weights=dense", true, ""},
           Silence{"f16", "{}", "weights=dense dtype=f16", true, ""},
           Silence{"f32", R"({"kappa":3})", "weights=dense", false, "truncate"},
           Silence{"f32", R"({"flush_to_zero":true})", "weights=dense", false, "flushed"},
           Silence{"f16", R"({"mma":"ampere"})", "weights=dense dtype=f16", false, "tensor cores"},
           Silence{"f32,operand=tf32", "{}", "weights=dense", false, "operands"},
           Silence{"f64", "{}", "weights=dense dtype=f64", false, "float64"},
           Silence{"f32,softmax=bf16", "{}", "weights=dense", false, "not calibrated: "},
           Silence{"f32", "{}", "weights=one_hot", false, "alike"},
           Silence{"f32", "{}", "weights=cancelling", false, "alike"},
           Silence{"f32", "{}", "weights=dense amplitude=0x1p-100", false, "alike"},
           Silence{"f32", "{}", "weights=dense b=2 x_layout=broadcast", false, "alike"},
           Silence{"f32", "{}", "weights=dense x_layout=slice", true, ""},
           Silence{"f32", "{}", "weights=dense l=1 m=1 e=8", false, "fewer than 48"},
       }) {
    const std::string text = std::string(row.policy) + ' ' + row.promise + ' ' + row.problem;
    const Contract contract =
        op.contract_from_json(nlohmann::json::parse(row.promise), op.policy_from_text(row.policy));
    const auto subject = builtin_subject("builtin:mha-explicit", row.policy)->open();
    const bool small = std::string_view(row.problem).find("l=1") != std::string_view::npos;
    const Problem problem =
        problem_from_text("op=mha " + (small ? "heads=2 kv_heads=2 head_dim=16 " : shape) + std::string(row.problem));
    const CaseOutcome outcome = laws.asked(problem, contract, *subject);
    for (const std::size_t law : {laws.spread, laws.aggregate}) {
      const Verdict& verdict = verdict_of(outcome, law);
      EXPECT_EQ(verdict.kind == VerdictKind::pass, row.speaks) << text << ": " << verdict.reason;
      EXPECT_NE(verdict.reason.find(row.why), std::string::npos) << text << ": " << verdict.reason;
    }
  }
}

TEST(MhaStatistics, CalibrationDependsOnItsOptionsAloneAndIsReadBack) {
  test::expect_calibration_of_its_options_alone(laws.small_calibration("f16", 4, 10));
}

// A block that leaves its intervals is no calibration at all.
TEST(MhaStatistics, CalibrationRefusesABlockThatBreaksItsPromise) {
  CalibrateOptions options = laws.small_calibration("f16", 4, 10);
  options.kernel = test::spoilt([](const Call& asked) {
    const attest_tensor& out = asked.as<attest_mha>().out;
    store(out, 0, 0, 0, 0, load(out, 0, 0, 0) * 1.5 + 1);
  });
  EXPECT_THROW(calibrate(options), Error);
}

TEST(MhaStatistics, DataOfAnotherOperationAreNotUsed) {
  const auto subject = builtin_subject("builtin:mha-explicit", "f32")->open();
  test::expect_data_of_others_unused(
      laws, *subject, problem_from_text("op=mha l=16 m=16 e=32 heads=2 kv_heads=2 head_dim=16 weights=dense"));
}

}  // namespace
}  // namespace attest::engine
