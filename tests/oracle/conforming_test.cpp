// No false alarm: emulated kernels that keep their contract, in many orders and schemes, are never found wrong.
#include <string>

#include <gtest/gtest.h>

#include "core/rng.hpp"
#include "kernels/emulated/contracts.hpp"
#include "kernels/emulated/emulator.hpp"
#include "oracle/attention.hpp"
#include "tests/oracle/draw.hpp"

namespace attest {
namespace {

std::string text(const Evidence& e) {
  return e.tensor + "[" + std::to_string(e.index[0]) + "," + std::to_string(e.index[1]) + "," +
         std::to_string(e.index[2]) + "," + std::to_string(e.index[3]) + "] got " + hex_float(e.got) + " in " +
         hex_float(e.lo) + " .. " + hex_float(e.hi) + " ratio " + std::to_string(e.ratio) + " " + e.note;
}

struct Tried {
  Counts counts;
  int alarms = 0, vacuous = 0, problems = 0;
};

// One emulated kernel that keeps a contract on `policy`; the number chooses the contract, the problem and the kernel.
void try_one(const Policy& policy, std::uint64_t number, Tried& tried, bool tensor_cores = false) {
  const int declared = static_cast<int>(number % (tensor_cores ? emulator::mma_variants : emulator::contract_variants));
  Contract contract =
      tensor_cores ? emulator::draw_mma_contract(policy, declared) : emulator::draw_contract(policy, declared);
  if (mix(number) % 6 == 0) emulator::fold_into_score(contract);
  const Problem problem = testing::draw_problem(policy[Stage::storage], number * 977);
  const Inputs inputs = materialise(problem);
  const emulator::Variant variant = emulator::draw_variant(contract, problem, number);
  Tensor out = make_out(problem), lse = make_lse(problem);
  emulator::run(inputs, contract, variant, out, lse);
  const Verdict verdict = oracle::AttentionOracle(contract, problem, inputs).judge(out, lse);
  tried.counts += verdict.counts;
  ++tried.problems;
  tried.vacuous += verdict.kind == VerdictKind::vacuous;
  if (verdict.kind != VerdictKind::fail || ++tried.alarms > 5) return;
  ADD_FAILURE() << to_text(policy) << " contract " << declared << " number " << number << ": " << to_text(problem)
                << "\n  " << text(*verdict.evidence) << "\n  normalise " << static_cast<int>(variant.normalise)
                << " scale on " << static_cast<int>(variant.scale_on) << " tile " << variant.tile << " splits "
                << variant.splits << " merge " << static_cast<int>(variant.merge) << " exp2 " << variant.exp2 << " fma "
                << variant.fma << " truncate " << variant.truncate_qk << " blocks "
                << static_cast<int>(variant.blocks_qk) << static_cast<int>(variant.blocks_pv)
                << static_cast<int>(variant.blocks_sum) << " of " << variant.blocks_at_once;
}

class Conforming : public ::testing::TestWithParam<std::size_t> {
 protected:
  void expect_no_alarm(const std::string& name, const Tried& tried) {
    EXPECT_EQ(tried.alarms, 0);
    EXPECT_GE(tried.counts.judged, 100'000);
    RecordProperty("judged", std::to_string(tried.counts.judged));
    RecordProperty("undetermined", std::to_string(tried.counts.undetermined));
    RecordProperty("vacuous", tried.vacuous);
    std::printf("%s: judged %ld, undetermined %ld, vacuous %d of %d\n", name.c_str(),
                static_cast<long>(tried.counts.judged), static_cast<long>(tried.counts.undetermined), tried.vacuous,
                tried.problems);
  }
};

TEST_P(Conforming, KernelsAreNeverFoundWrong) {
  const NamedPolicy& named = named_policies()[GetParam()];
  Tried tried;
  for (std::uint64_t n = 0; n < 4200; ++n) try_one(named.policy, n + 10'000 * GetParam(), tried);
  expect_no_alarm(std::string(named.name), tried);
}

INSTANTIATE_TEST_SUITE_P(AllPolicies, Conforming, ::testing::Range<std::size_t>(0, 9));

TEST_P(Conforming, TensorCoresAreNeverFoundWrong) {
  const NamedPolicy& named = named_policies()[GetParam()];
  Tried tried;
  for (std::uint64_t n = 0; n < 4200; ++n) try_one(named.policy, n + 500'000 + 10'000 * GetParam(), tried, true);
  expect_no_alarm(std::string(named.name), tried);
}

// Every stage in a format of its own: half of them in the storage format, the rest in any.
TEST_F(Conforming, KernelsOfMixedPoliciesAreNeverFoundWrong) {
  constexpr Format formats[] = {Format::f16, Format::bf16, Format::f32, Format::f64, Format::tf32};
  Tried tried;
  for (std::uint64_t n = 0; n < 20'000; ++n) {
    std::uint64_t key = mix(n);
    const auto pick = [&](std::uint64_t count) { return below(key = mix(key), count); };
    Policy policy(formats[pick(4)]);
    for (std::size_t stage = 1; stage < stage_count; ++stage)
      if (pick(2) == 0) policy.set(static_cast<Stage>(stage), formats[pick(4)]);
    if (pick(4) == 0) policy.set(Stage::operand, Format::tf32);
    try_one(policy, n, tried, n % 4 == 3);
  }
  expect_no_alarm("mixed policies", tried);
}

// Without a dimension there is nothing to add up, in any order, and every score is 0.
TEST(ConformingKernels, TakeNoDimensionAtAll) {
  const Contract contract = contract_for(policy_from_text("f32"));
  const Problem problem = problem_from_text("lq=1 lk=2 d=0 dv=1 values=normal:1");
  const Inputs inputs = materialise(problem);
  for (const emulator::Order order : {emulator::Order::forward, emulator::Order::backward, emulator::Order::pairwise,
                                      emulator::Order::lanes, emulator::Order::random}) {
    emulator::Variant variant;
    variant.qk = order;
    Tensor out = make_out(problem), lse;
    emulator::run(inputs, contract, variant, out, lse);
    EXPECT_EQ(oracle::AttentionOracle(contract, problem, inputs).judge(out, lse).kind, VerdictKind::pass);
  }
}

// A quotient that underflows is off by ulps of subnormals.
TEST(ConformingDivisions, OfTinyValuesAreNeverFoundWrong) {
  for (const char* policy : {"f32", "f16-all"})
    for (const char* declared : {R"({"div_ulp":64,"lse_merge":"none"})", R"({"div_ulp":64,"normalise":"before"})"}) {
      const Policy parsed = policy_from_text(policy);
      Contract contract = contract_from_text(declared, parsed);
      contract.empty_row = EmptyRow::zero;
      int alarms = 0, found = 0;
      for (std::uint64_t n = 0; n < 600; ++n) {
        Problem problem = problem_from_text("lq=2 d=4 dv=4 values=tiny");
        problem.dtype = parsed[Stage::storage];
        problem.lk = 1 + static_cast<Index>(n % 3);
        problem.seed = mix(n);
        const Inputs inputs = materialise(problem);
        Tensor out = make_out(problem), lse;
        emulator::run(inputs, contract, emulator::draw_variant(contract, problem, n), out, lse);
        const auto fails = [&] {
          return oracle::AttentionOracle(contract, problem, inputs).judge(out, lse).kind == VerdictKind::fail;
        };
        alarms += fails();
        contract.arithmetic.div_ulp = 0.5;
        found += fails();
        contract.arithmetic.div_ulp = 64;
      }
      EXPECT_EQ(alarms, 0) << policy << declared;
      if (contract.arithmetic.normalise_after) {
        EXPECT_GE(found, 50) << policy << declared;
      }
    }
}

// Nothing to judge is no error.
TEST(AttentionOracle, TakesEmptyDimensions) {
  for (const char* empty : {"b=0", "hq=0 hkv=0", "hq=0", "lq=0", "dv=0"}) {
    const Problem problem = problem_from_text(empty);
    const Contract contract = contract_for(policy_from_text("f32"));
    const Inputs inputs = materialise(problem);
    const Tensor out = make_out(problem);
    const Verdict verdict = oracle::AttentionOracle(contract, problem, inputs).judge(out, {});
    EXPECT_EQ(verdict.kind, VerdictKind::vacuous) << empty;
  }
}

}  // namespace
}  // namespace attest
