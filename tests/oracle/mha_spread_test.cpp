// The statistical tier of blocks asks few elements in full: what it leaves out needs no look, so that the largest lambda is that of
// every element of its rows.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/mha/inputs.hpp"
#include "core/rng.hpp"
#include "kernels/mha/emulated.hpp"
#include "oracle/mha/calibration.hpp"
#include "oracle/mha/mha.hpp"
#include "oracle/mha/spread.hpp"
#include "tests/oracle/mha_draw.hpp"

namespace attest {
namespace {

using emulator::BlockDefect;
using emulator::BlockVariant;
using oracle::Statistics;

struct Case {
  testing::NamedBlockContract named;
  mha::Problem problem;
};

// One that the tier may speak of.
Case draw(std::uint64_t key) {
  constexpr const char* policies[] = {"f32", "f16", "bf16", "f16,gemm=f16", "f16-acc16"};
  constexpr const char* numbers[] = {"{}", R"({"projections":"separate"})", R"({"projections":"unrounded"})",
                                     R"({"heads":"unrounded"})", R"({"fold":"none","lse_merge":"none"})"};
  Case drawn{{policies[key % 5], numbers[key / 5 % 5]}, {}};
  mha::Problem& p = drawn.problem = testing::draw_block(drawn.named.contract().attention.policy[Stage::storage], key);
  constexpr mha::Weights weights[] = {mha::Weights::dense, mha::Weights::dense_in, mha::Weights::dense_out};
  p.weights = weights[below(mix(key), 3)];
  p.x_layout = p.memory_layout = mha::Layout::contiguous;
  p.head_dim = std::max<Index>(4, p.head_dim);
  p.e = std::max<Index>(4, p.e);
  p.amplitude = 1;
  return drawn;
}

void run(const Case& of, const mha::Call& call, BlockDefect defect, std::uint64_t seed) {
  const mha::Contract contract = of.named.contract();
  BlockVariant variant = emulator::draw_block_variant(contract, of.problem, seed);
  variant.defect = defect;
  emulator::run(call, contract, variant);
}

TEST(MhaSpread, WhatIsSaidCheaplyIsNoMoreThanWhatIsSaid) {
  int said = 0, close = 0;
  for (std::uint64_t n = 0; n < 200; ++n) {
    const Case of = draw(mix(n));
    const mha::Contract contract = of.named.contract();
    const mha::Inputs inputs = mha::materialise(of.problem);
    const Tensor out = mha::make_out(of.problem);
    const mha::Call call = inputs.call(out);
    const oracle::Way::Block block(contract, call);
    oracle::BlockSpread spread(block, oracle::ways_of(contract).front());
    for (Index b = 0; b < of.problem.b; ++b)
      for (Index i = 0; i < of.problem.l; ++i)
        for (Index e = 0; e < of.problem.e; ++e) {
          const auto least = spread.least_of(b, i, e);
          const auto whole = spread.of(b, i, e);
          if (!whole) continue;
          ASSERT_TRUE(least) << mha::to_text(of.problem);
          EXPECT_LE(least->s, whole->s) << mha::to_text(of.problem);
          EXPECT_LE(std::fabs(least->y - whole->y), least->slack) << mha::to_text(of.problem);
          ++said;
          close += least->s > 0.25 * whole->s;
        }
  }
  EXPECT_GT(said, 10'000);
  EXPECT_GT(close, said / 4);
}

TEST(MhaSpread, TheLargestLambdaIsThatOfEveryElement) {
  constexpr BlockDefect defects[] = {BlockDefect::none, BlockDefect::gemm_16, BlockDefect::gemm_out_16};
  int beyond = 0, within = 0;
  for (std::uint64_t n = 0; n < 400; ++n) {
    Case of = draw(mix(n + 1000));
    of.named.policy = n % 2 == 0 ? "f16" : "bf16";
    of.problem.dtype = of.named.contract().attention.policy[Stage::storage];
    of.problem.l = 4 + static_cast<Index>(n % 13);
    of.problem.e = 24 + static_cast<Index>(n % 50);
    if (of.problem.self) of.problem.m = of.problem.l;
    const mha::Contract contract = of.named.contract();
    const mha::Inputs inputs = mha::materialise(of.problem);
    const Tensor out = mha::make_out(of.problem);
    const mha::Call call = inputs.call(out);
    run(of, call, defects[n % 3], n);
    oracle::MhaOracle oracle(contract, call);
    if (oracle.judge(out).kind == VerdictKind::fail) continue;  // of which intervals speak
    const Statistics statistics = oracle.statistics_of(out);
    double largest = 0;
    for (const Index row : oracle::statistical_sample(of.problem).rows)
      for (Index e = 0; e < of.problem.e && !(largest > Statistics::stop_lambda); ++e) {
        const double lambda = oracle.lambda_needed(0, row / of.problem.l, row % of.problem.l, e, out);
        if (lambda > largest) largest = lambda;
      }
    if (largest > Statistics::near_lambda) {
      EXPECT_EQ(statistics.largest_lambda, largest) << mha::to_text(of.problem);
      ++beyond;
    } else {
      EXPECT_LE(statistics.largest_lambda, Statistics::near_lambda) << mha::to_text(of.problem);
      ++within;
    }
  }
  EXPECT_GT(beyond, 10);
  EXPECT_GT(within, 40);
}

// Lambda is asked of every row where that costs little, T of no fewer elements than a result needs; every column has its turn.
TEST(MhaSpread, LooksAtAllRowsOfABlockOfModestSize) {
  const auto sample = [](const char* text) { return oracle::statistical_sample(mha::problem_from_text(text)); };
  const auto modest = sample("l=16 m=16 e=64 heads=4 kv_heads=4 head_dim=16 weights=dense");
  EXPECT_EQ(modest.rows.size(), 16u);
  EXPECT_GT(modest.step, 1);
  EXPECT_GE(16 * 64 / modest.step, 128);
  EXPECT_EQ(std::gcd(modest.step, Index{64}), 1);
  const auto small = sample("l=4 m=4 e=16 heads=2 kv_heads=2 head_dim=8 weights=dense");
  EXPECT_EQ(small.rows.size(), 4u);
  EXPECT_EQ(small.step, 1);
  const auto large = sample("l=512 m=512 e=768 heads=12 kv_heads=12 head_dim=64 weights=dense");
  ASSERT_EQ(large.rows.size(), 1u);
  EXPECT_EQ(large.rows.front(), 256);  // under causality the first sees one key
  EXPECT_GE(768 / large.step, oracle::least_elements);
}

}  // namespace
}  // namespace attest
