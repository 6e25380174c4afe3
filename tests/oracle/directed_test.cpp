// Kernels that round every operation up, down or toward zero stay inside the bounds at twice the unit roundoff, and
// do not at once.
#include <cstdio>
#include <string>

#include <gtest/gtest.h>

#include "core/directed.hpp"
#include "core/rng.hpp"
#include "kernels/emulated/contracts.hpp"
#include "kernels/emulated/emulator.hpp"
#include "oracle/attention.hpp"
#include "tests/oracle/draw.hpp"

namespace attest {
namespace {

using emulator::Direction;
using oracle::RoundingMode;

class Directed : public ::testing::TestWithParam<std::size_t> {
 protected:
  const NamedPolicy& named = named_policies()[GetParam()];
};

TEST_P(Directed, KernelsStayInsideAtTwiceTheRoundoff) {
  constexpr Direction directions[] = {Direction::up, Direction::down, Direction::toward_zero};
  int outside_at_one = 0, problems = 0;
  Counts counts;
  for (std::uint64_t n = 0; n < 2400; ++n) {
    const std::uint64_t number = n * 9 + GetParam();
    const Contract contract =
        emulator::draw_contract(named.policy, static_cast<int>(n / 3 % emulator::contract_variants));
    const Problem problem = testing::draw_problem(named.policy[Stage::storage], number * 7919);
    const Inputs inputs = materialise(problem);
    emulator::Variant variant = emulator::draw_variant(contract, problem, number);
    variant.rounding = directions[n % 3];
    Tensor out = make_out(problem), lse = make_lse(problem);
    emulator::run(inputs, contract, variant, out, lse);
    const Verdict verdict = oracle::AttentionOracle(contract, problem, inputs, RoundingMode::directed).judge(out, lse);
    ASSERT_NE(verdict.kind, VerdictKind::fail)
        << to_text(problem) << " direction " << n % 3 << ": " << verdict.evidence->tensor << " got "
        << hex_float(verdict.evidence->got) << " in " << hex_float(verdict.evidence->lo) << " .. "
        << hex_float(verdict.evidence->hi) << " at " << verdict.evidence->index[2] << ',' << verdict.evidence->index[3];
    counts += verdict.counts;
    ++problems;
    outside_at_one += oracle::AttentionOracle(contract, problem, inputs).judge(out, lse).kind == VerdictKind::fail;
  }
  std::printf("%s: %ld elements judged at twice the roundoff; at once %d of %d problems fail\n",
              std::string(named.name).c_str(), static_cast<long>(counts.judged), outside_at_one, problems);
  EXPECT_GE(counts.judged, 50'000);
  EXPECT_GE(outside_at_one, 1);
}

INSTANTIATE_TEST_SUITE_P(AllPolicies, Directed, ::testing::Range<std::size_t>(0, 9));

TEST(RoundToward, TakesTheNeighbourOnThatSide) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(round_toward(Format::f16, 1 + 0x1p-20, true), 1 + 0x1p-10);
  EXPECT_EQ(round_toward(Format::f16, 1 + 0x1p-20, false), 1);
  EXPECT_EQ(round_toward(Format::f16, -1 - 0x1p-20, false), -1 - 0x1p-10);
  EXPECT_EQ(round_toward(Format::f16, 0x1p-30, true), 0x1p-24);
  EXPECT_EQ(round_toward(Format::f16, 0x1p-30, false), 0);
  EXPECT_TRUE(std::signbit(round_toward(Format::f16, -0x1p-30, true)));
  EXPECT_EQ(round_toward(Format::f16, 65505, true), infinity);
  EXPECT_EQ(round_toward(Format::f16, 65505, false), 65504);
  EXPECT_EQ(round_toward(Format::f16, -1e9, true), -65504);
  EXPECT_EQ(round_toward(Format::f32, -1e39, false), -infinity);
  for (const Format format : {Format::f16, Format::bf16, Format::f32})
    for (std::uint64_t n = 0; n < 1000; ++n) {
      const double x = symmetric_uniform(mix(n)), up = round_toward(format, x, true),
                   down = round_toward(format, x, false);
      EXPECT_LE(down, x);
      EXPECT_GE(up, x);
      const double nearest = round_to(format, x);
      EXPECT_TRUE(nearest == up || nearest == down);
      EXPECT_EQ(up == down, nearest == x);
    }
}

}  // namespace
}  // namespace attest
