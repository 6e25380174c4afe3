// The quick level of a block's verdict accepts nothing that the full formulas leave outside: it is asked for the
// nearest numbers past either end of every enclosure.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <limits>

#include "core/mha/inputs.hpp"
#include "kernels/mha/emulated.hpp"
#include "oracle/mha/mha.hpp"
#include "oracle/outcome.hpp"
#include "tests/oracle/mha_draw.hpp"
#include "tests/setting.hpp"

namespace attest {
namespace {

double next(Format format, double x, double to) {
  if (!std::isfinite(x)) return x;
  const double step = std::ldexp(std::max(std::fabs(x), smallest_normal(format)), -precision(format) + 1);
  for (double by = step / 4;; by *= 2) {
    const double moved = round_to(format, x + (to > 0 ? by : -by));
    if (moved != x) return moved;
  }
}

struct Asked {
  testing::NamedBlockContract named;
  mha::Contract contract;
  mha::Problem problem;
  mha::Inputs inputs;
  // Every third under tensor cores, narrow operands or flushed numbers.
  explicit Asked(std::uint64_t seed)
      : named(seed % 3 == 0 ? testing::draw_unit_contract(seed) : testing::draw_block_contract(seed)),
        contract(named.contract()),
        problem(testing::draw_block(contract.attention.policy[Stage::storage], seed)),
        inputs(mha::materialise(problem = contract.attention.arithmetic.flush_to_zero && seed % 2 == 0
                                              ? testing::make_small(problem, seed)
                                              : problem)) {}
};

TEST(MhaLevels, QuickAcceptsNothingPastAnEnclosure) {
  Index asked = 0, of_use = 0;
  for (std::uint64_t seed = 1; seed <= 700; ++seed) {
    const Asked a(seed);
    Tensor out = mha::make_out(a.problem);
    const mha::Call call = a.inputs.call(out);
    oracle::MhaOracle oracle(a.contract, call);
    const oracle::Way::Block block(a.contract, call);
    const auto names = oracle::ways_of(a.contract);
    const Format storage = a.contract.attention.policy[Stage::storage];
    for (std::size_t way = 0; way < names.size(); ++way)
      for (const double side : {-1.0, 1.0, 0.0}) {
        for (Index b = 0; b < a.problem.b; ++b)
          for (Index i = 0; i < a.problem.l; ++i)
            for (Index e = 0; e < a.problem.e; ++e) {
              const oracle::Enclosure at = oracle.enclosure(way, b, i, e);
              const bool judged = !at.undetermined && at.expect == oracle::Expect::number && std::isfinite(at.lo);
              const double end =
                  round_to(storage, round_to(a.contract.attention.policy[Stage::output], side > 0 ? at.hi : at.lo));
              double value = side == 0 ? round_to(storage, at.y) : next(storage, end, side);
              if (!judged || !std::isfinite(value)) value = std::numeric_limits<double>::infinity();
              out.set(b, i, e, 0, value);
            }
        oracle::QuickBlock quick(block, names[way].projected, names[way].heads_rounded);
        if (!quick.usable()) continue;
        quick.judge(out);
        const oracle::Rounding round{a.contract.attention.policy[Stage::output], storage,
                                     a.contract.attention.arithmetic.flush_to_zero};
        for (Index b = 0; b < a.problem.b; ++b)
          for (Index i = 0; i < a.problem.l; ++i)
            for (Index e = 0; e < a.problem.e; ++e) {
              const double got = out.at(b, i, e);
              const bool accepted = quick.accepts(b * a.problem.l + i, e);
              if (side == 0) {
                of_use += accepted ? 1 : 0;
                continue;
              }
              // A result that may be flushed to 0 permits all numbers between.
              if (round.flush_to_zero &&
                  judge_element(oracle.enclosure(way, b, i, e), round, got) != oracle::Outcome::outside)
                continue;
              ++asked;
              ASSERT_FALSE(accepted || quick.accepts_closely(b, i, e, round, got))
                  << "seed " << seed << " way " << way << ' ' << a.named.policy << ' ' << a.named.numbers << '\n'
                  << mha::to_text(a.problem) << " at " << b << ' ' << i << ' ' << e << " got " << got;
            }
      }
  }
  EXPECT_GT(asked, 80000);
  EXPECT_GT(of_use, asked / 6);
}

// Tells whether both fail.
bool expect_agreement(std::uint64_t seed) {
  const Asked a(seed);
  const Tensor out = mha::make_out(a.problem);
  const mha::Call call = a.inputs.call(out);
  emulator::BlockVariant variant = emulator::draw_block_variant(a.contract, a.problem, seed);
  if (seed % 2 == 0) variant.defect = static_cast<emulator::BlockDefect>(1 + seed / 2 % 11);
  emulator::run(call, a.contract, variant);
  oracle::MhaOracle oracle(a.contract, call);
  const Verdict quick = oracle.judge(out), slow = oracle.judge_slowly(out);
  EXPECT_EQ(name(quick.kind), name(slow.kind))
      << "seed " << seed << ' ' << mha::to_text(a.problem) << ' ' << quick.reason << '/' << slow.reason;
  if (quick.kind != VerdictKind::fail || slow.kind != VerdictKind::fail) return false;
  EXPECT_EQ(quick.evidence->index, slow.evidence->index);
  const double lo = quick.evidence->lo, other = slow.evidence->lo;
  EXPECT_TRUE(lo == other || (std::isnan(lo) && std::isnan(other))) << "seed " << seed;
  return true;
}

TEST(MhaLevels, AgreeOnConformingBlocksAndOnDefects) {
  int failed = 0;
  const std::uint64_t problems = setting("ATTEST_MHA_PROBLEMS", 500);
  for (std::uint64_t seed = 1; seed <= problems; ++seed) failed += expect_agreement(seed);
  std::printf("%d verdicts fail\n", failed);
  EXPECT_GT(failed, 60);
}

// Keys that a bias of -inf closes are no part of what enclosures may leave out.
TEST(MhaLevels, AgreeOnKeysThatABiasCloses) {
  for (const std::uint64_t seed : {831u, 7115u, 7377u, 12039u, 12523u, 25506u, 29079u}) {
    const Asked a(seed);
    EXPECT_EQ(a.problem.bias, mha::Bias::minus_inf) << seed;
    EXPECT_FALSE(expect_agreement(seed));
  }
}

}  // namespace
}  // namespace attest
