// Blocks that keep their contract to its end must never be blamed. ATTEST_MHA_PROBLEMS and ATTEST_MHA_SEED choose how
// many random problems and which; ATTEST_MHA_OUTPUTS prints the count of outputs judged.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "core/mha/inputs.hpp"
#include "kernels/mha/emulated.hpp"
#include "oracle/mha/mha.hpp"
#include "tests/oracle/mha_draw.hpp"

namespace attest {
namespace {

std::uint64_t from_environment(const char* name, std::uint64_t fallback) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : fallback;
}

struct Totals {
  Index problems = 0, judged = 0, undetermined = 0, vacuous = 0;
};

// `units`: of tensor cores, narrow operands and flushed numbers.
void run_one(std::uint64_t seed, bool hostile, bool units, Totals& totals) {
  const testing::NamedBlockContract named =
      units ? testing::draw_unit_contract(seed) : testing::draw_block_contract(seed);
  const mha::Contract contract = named.contract();
  mha::Problem problem = testing::draw_block(contract.attention.policy[Stage::storage], seed);
  if (contract.attention.arithmetic.flush_to_zero && seed % 2 == 0) problem = testing::make_small(problem, seed);
  const mha::Inputs inputs = mha::materialise(problem);
  const Tensor out = mha::make_out(problem);
  const mha::Call call = inputs.call(out);
  const emulator::BlockVariant variant = emulator::draw_block_variant(contract, problem, seed, hostile);
  emulator::run(call, contract, variant);
  oracle::MhaOracle oracle(contract, call);
  const Verdict verdict = oracle.judge(out);
  ++totals.problems;
  totals.judged += verdict.counts.judged;
  totals.undetermined += verdict.counts.undetermined;
  totals.vacuous += verdict.kind == VerdictKind::vacuous;
  if (verdict.kind != VerdictKind::fail) return;
  const Evidence& e = *verdict.evidence;
  ADD_FAILURE() << "seed " << seed << ' ' << named.policy << ' ' << named.numbers << '\n'
                << mha::to_text(problem) << "\nout[" << e.index[0] << ',' << e.index[1] << ',' << e.index[2]
                << "] = " << e.got << ", expected " << e.expected << " in [" << e.lo << ", " << e.hi << "], order "
                << static_cast<int>(variant.in.order) << ' ' << static_cast<int>(variant.out.order) << " projected "
                << static_cast<int>(variant.projected) << " heads rounded " << variant.heads_rounded;
}

void run_all(bool hostile, bool units, std::uint64_t share = 1) {
  const std::uint64_t problems = from_environment("ATTEST_MHA_PROBLEMS", 2500) / share,
                      first = from_environment("ATTEST_MHA_SEED", 1);
  Totals totals;
  for (std::uint64_t n = 0; n < problems && !::testing::Test::HasFailure(); ++n)
    run_one(first * 0x100000000 + n, hostile, units, totals);
  std::printf(
      "%s: %lld problems, %lld outputs judged, %.2f %% undetermined, %.2f %% of problems vacuous\n",
      hostile ? "one-sided" : "random", static_cast<long long>(totals.problems), static_cast<long long>(totals.judged),
      100.0 * static_cast<double>(totals.undetermined) / static_cast<double>(totals.judged + totals.undetermined),
      100.0 * static_cast<double>(totals.vacuous) / static_cast<double>(totals.problems));
  EXPECT_GT(totals.judged, static_cast<Index>(problems) * 40);
  EXPECT_LT(totals.undetermined, totals.judged / 4);
}

TEST(MhaConforming, BlocksOfEverySchemeAreNeverBlamed) { run_all(false, false); }
TEST(MhaConforming, BlocksThatErrToOneSideAreNeverBlamed) { run_all(true, false); }
TEST(MhaConforming, TensorCoresAndFlushedNumbersAreNeverBlamed) {
  run_all(false, true, 2);
  run_all(true, true, 2);
}

// Blocks that keep one contract, held to another that does not permit what they do.
int blamed(const char* policy, const char* numbers, const char* declared, bool small) {
  const mha::Contract contract = testing::NamedBlockContract{policy, numbers}.contract(),
                      other = testing::NamedBlockContract{policy, declared}.contract();
  int failed = 0;
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    mha::Problem problem = testing::draw_block(contract.attention.policy[Stage::storage], seed);
    if (small) problem = testing::make_small(problem, seed);
    const mha::Inputs inputs = mha::materialise(problem);
    const Tensor out = mha::make_out(problem);
    const mha::Call call = inputs.call(out);
    emulator::run(call, contract, emulator::draw_block_variant(contract, problem, seed, true));
    failed += oracle::MhaOracle(other, call).judge(out).kind == VerdictKind::fail;
  }
  return failed;
}
TEST(MhaConforming, WhatIsNotDeclaredIsBlamed) {
  EXPECT_GT(blamed("f32", R"({"mma":"hopper-fp8"})", R"({"mma":"hopper"})", false), 10);
  EXPECT_GT(blamed("f16", R"({"mma":"8/8/f32"})", R"({})", false), 20);
  EXPECT_GT(blamed("f32", R"({"mma":"3/5/e8m13"})", R"({})", false), 20);
  EXPECT_GT(blamed("f16", R"({"flush_to_zero":true,"projections":"separate"})", R"({"projections":"separate"})", true),
            10);
}

}  // namespace
}  // namespace attest
