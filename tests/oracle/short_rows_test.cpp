// Rows of few keys, judged beside each other in lanes: verdicts and counts are those that single rows give.
#include <cmath>
#include <limits>
#include <string>

#include <gtest/gtest.h>

#include "core/format.hpp"
#include "core/rng.hpp"
#include "kernels/emulated/contracts.hpp"
#include "kernels/emulated/emulator.hpp"
#include "oracle/attention.hpp"
#include "oracle/short_rows.hpp"
#include "tests/oracle/draw.hpp"
#include "tests/oracle/same_verdict.hpp"

namespace attest {
namespace {

// The numbers of rows that lanes settled, by kind.
struct Settled {
  Index rows = 0, empty = 0, with_bias = 0, kept = 0, causal = 0, windows = 0, strided = 0, capped = 0, with_lse = 0;
};

void count(const Problem& p, Index rows, Index empty, Settled& settled) {
  settled.rows += rows;
  settled.empty += empty;
  if (p.bias != Bias::none) settled.with_bias += rows;
  if (p.keep != Keep::none) settled.kept += rows;
  if (p.causal) settled.causal += rows;
  if (p.window_left >= 0 || p.window_right >= 0) settled.windows += rows;
  if (p.k_layout != Layout::bhsd && p.v_layout != Layout::bhsd) settled.strided += rows;
  if (p.softcap > 0) settled.capped += rows;
  if (p.lse != LseOutput::none) settled.with_lse += rows;
}

// Many short rows of few keys, and otherwise whatever draw_problem() draws.
Problem draw_short(Format dtype, std::uint64_t seed) {
  Problem p = testing::draw_problem(dtype, seed, 12);
  std::uint64_t key = mix(seed ^ 0x73686f7274u);
  const auto pick = [&](std::uint64_t n) { return static_cast<Index>(below(key = mix(key), n)); };
  p.b = 1 + pick(5);
  p.lq = 1 + pick(pick(2) == 0 ? 40 : 8);
  p.lk = 1 + pick(pick(2) == 0 ? 12 : 4);
  if (pick(4) != 0) p.d = 1 + pick(4);
  if (pick(4) != 0) p.dv = 1 + pick(4);
  return p;
}

// Row by row: what lanes say of a block that they settle, and what Quick says of it.
void expect_same_rows(const Contract& contract, const Problem& problem, const Inputs& inputs, const Tensor& out,
                      const Tensor& lse, Settled& settled) {
  using oracle::Quick;
  const oracle::Call call(contract, problem, inputs);
  const attest_tensor out_view = out.view(), lse_view = lse.view();
  const oracle::JudgedRows rows(problem);
  Quick quick(call, problem.dtype);
  if (!oracle::ShortRows::speaks_of(quick, call, rows.size())) return;
  oracle::ShortRows lanes(quick, call, problem.dtype, out_view, lse_view);
  oracle::Block block;
  for (std::size_t next = 0; next < rows.size() && lanes.speaks();) {
    const bool settles = lanes.settles(problem, rows, next, true);
    next = block.take(problem, rows, next, quick.max_rows());
    if (!settles) continue;
    quick.load(block.rows(), out_view, lse_view);
    Index empty = 0;
    ASSERT_EQ(lanes.rows().size(), block.rows().size());
    for (Index n = 0; n < std::ssize(block.rows()); ++n) {
      ASSERT_EQ(lanes.is_empty(n), quick.is_empty(n));
      if (lanes.is_empty(n)) {
        ASSERT_TRUE(quick.head_finite());
        ++empty;
        continue;
      }
      ASSERT_TRUE(quick.accepts_row(n));
      ASSERT_TRUE(!lse.present() || quick.accepts_lse(n));
    }
    count(problem, std::ssize(block.rows()), empty, settled);
  }
}

// Every element at an end of its interval, and now and then one step outside.
void plant_edges(const Contract& contract, const Problem& problem, const Inputs& inputs, std::uint64_t key,
                 Tensor& out) {
  oracle::AttentionOracle oracle(contract, problem, inputs);
  for (Index b = 0; b < problem.b; ++b)
    for (Index h = 0; h < problem.hq; ++h)
      for (Index i = 0; i < problem.lq; ++i)
        for (Index c = 0; c < problem.dv; ++c) {
          const oracle::Enclosure e = oracle.out_enclosure(b, h, i, c);
          if (!(std::fabs(e.lo) < HUGE_VAL && std::fabs(e.hi) < HUGE_VAL)) continue;
          key = mix(key);
          const bool up = (key & 1) != 0;
          const double end = round_to(problem.dtype, up ? e.hi : e.lo);
          out.set(b, h, i, c, below(mix(key), 100) == 0 ? testing::neighbour(problem.dtype, end, up) : end);
        }
}

class ShortRows : public ::testing::TestWithParam<std::size_t> {};

TEST_P(ShortRows, InLanesAreWhatTheyAreOneByOne) {
  const NamedPolicy& named = named_policies()[GetParam()];
  const Format dtype = named.policy[Stage::storage];
  Settled settled;
  Index failed = 0;
  for (int n = 0; n < 400; ++n) {
    const auto seed = static_cast<std::uint64_t>(n) * 37 + GetParam();
    Contract contract =
        n % 2 == 0 ? contract_for(named.policy) : emulator::draw_any_contract(named.policy, n % emulator::all_variants);
    if (n % 8 == 2) contract.arithmetic.normalise_before = false;  // the largest weight is then spared a rounding
    const Problem problem = draw_short(dtype, seed);
    SCOPED_TRACE(to_text(problem));
    const Inputs inputs = materialise(problem);
    emulator::Variant variant = emulator::draw_variant(contract, problem, seed);
    if (n % 8 == 3) variant.defect = static_cast<emulator::Defect>(1 + n / 8 % 5);
    Tensor out = make_out(problem), lse = make_lse(problem);
    emulator::run(inputs, contract, variant, out, lse);
    std::uint64_t key = mix(seed);
    if (n % 8 == 5)  // one element elsewhere
      out.set(problem.b - 1, 0, static_cast<Index>(below(key, static_cast<std::uint64_t>(problem.lq))), 0,
              n % 16 == 5 ? std::numeric_limits<double>::quiet_NaN() : 0.75);

    if (n % 4 == 2) plant_edges(contract, problem, inputs, key, out);

    expect_same_rows(contract, problem, inputs, out, lse, settled);
    oracle::AttentionOracle oracle(contract, problem, inputs);
    const Verdict judged = oracle.judge(out, lse);
    testing::expect_same_verdict(judged, oracle::AttentionOracle(contract, problem, inputs).judge_row_by_row(out, lse));
    failed += judged.kind == VerdictKind::fail;
    if (HasFailure()) return;
  }
  EXPECT_GE(failed, 20);
  EXPECT_GE(settled.rows, 4000);
  EXPECT_GE(settled.empty, 400);
  for (const Index kind : {settled.with_bias, settled.kept, settled.causal, settled.windows, settled.strided,
                           settled.capped, settled.with_lse})
    EXPECT_GE(kind, 200);
}

INSTANTIATE_TEST_SUITE_P(EveryPolicy, ShortRows, ::testing::Range<std::size_t>(0, named_policies().size()),
                         [](const auto& info) {
                           std::string id(named_policies()[info.param].name);
                           for (char& c : id)
                             if (c == '-') c = '_';
                           return id;
                         });

}  // namespace
}  // namespace attest
