#include "ops/attention/regime.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/inputs.hpp"
#include "generators/draw.hpp"

namespace attest::ops::of_attention {
namespace {

using attest::Domain;
using attest::problem_from_text;
using attest::Supports;

constexpr double most = std::numeric_limits<double>::max();

// Tells whether a key is open as attest/plugin.h defines it, read off the tensors themselves.
bool open(const Problem& p, const Inputs& in, Index b, Index h, Index i, Index j) {
  const Index length = p.lengths == Lengths::none ? p.lk : static_cast<Index>(in.kv_lengths.at(b, 0, 0, 0));
  const Index diagonal = p.align == Align::bottom_right ? i + length - p.lq : i;
  return j < length && (!p.causal || j <= diagonal) && (p.window_left < 0 || diagonal - j <= p.window_left) &&
         (p.window_right < 0 || j - diagonal <= p.window_right) &&
         (p.keep == Keep::none || in.keep.at(b, h, i, j) != 0) &&
         (p.bias == Bias::none || in.bias.at(b, h, i, j) >= -most);
}

struct Expected {
  Masking masking;
  Scores scores;
  ValueRange values;
};

Expected expected(const Problem& p) {
  const Inputs in = materialise(p);
  Expected all{{.open_keys = static_cast<double>(p.lk)}, {}, {}};
  bool scored = false, biased = false;
  for (Index b = 0; b < p.b; ++b)
    for (Index h = 0; h < p.hq; ++h)
      for (Index i = 0; i < p.lq; ++i) {
        Index count = 0, kept = 0;
        Problem unbiased = p;
        unbiased.bias = Bias::none;
        double least = most, largest = -most, bias = -most, closed = -most;
        for (Index j = 0; j < p.lk; ++j) {
          double product = 0;
          for (Index c = 0; c < p.d; ++c) product += in.q.at(b, h, i, c) * in.k.at(b, h / p.group(), j, c);
          const bool keeps = open(unbiased, in, b, h, i, j);
          kept += keeps;
          if (!keeps && p.bias == Bias::none) closed = std::max(closed, product * p.effective_scale());
          if (!open(p, in, b, h, i, j)) continue;
          ++count;
          const double added = p.bias == Bias::none ? 0 : in.bias.at(b, h, i, j);
          const double s = product * p.effective_scale() + added;
          all.scores.largest_product = std::max(all.scores.largest_product, std::fabs(product));
          least = std::min(least, s), largest = std::max(largest, s), bias = std::max(bias, added);
          all.masking.biased = all.masking.biased || added != 0;
        }
        all.masking.open_keys = std::min(all.masking.open_keys, static_cast<double>(count));
        all.masking.mask_closes = all.masking.mask_closes || kept < p.lk;
        all.masking.closed_keys = all.masking.closed_keys || count < p.lk;
        if (count == 0) continue;
        if (p.bias != Bias::none)
          all.masking.least_row_bias = biased ? std::min(all.masking.least_row_bias, bias) : bias;
        biased = true;
        all.scores.least_row_max = scored ? std::min(all.scores.least_row_max, largest) : largest;
        all.scores.largest_row_max = scored ? std::max(all.scores.largest_row_max, largest) : largest;
        all.scores.largest_spread = std::max(all.scores.largest_spread, largest - least);
        all.scores.closed_lead = std::max(all.scores.closed_lead, closed - largest);
        scored = true;
      }
  for (Index b = 0; b < p.b; ++b)
    for (Index h = 0; h < p.hkv; ++h)
      for (Index j = 0; j < p.lk && p.dv > 0; ++j) {
        bool zero = true;
        for (Index c = 0; c < p.dv; ++c) zero = zero && in.v.at(b, h, j, c) == 0;
        all.values.zero_row = all.values.zero_row || zero;
      }
  return all;
}

// Few rows, keys and columns, all of which are looked at.
bool small(const Problem& p) {
  const Index rows = p.b * p.hq * p.lq;
  return p.rows == 0 && rows <= 16 && p.lk <= 64 && p.d <= 16 && p.b * p.hkv * p.lk <= 512;
}

void expect_agreement(const Problem& p) {
  const Expected want = expected(p);
  const Masking masking = masking_of(p);
  EXPECT_EQ(masking.open_keys, want.masking.open_keys) << to_text(p);
  EXPECT_EQ(masking.closed_keys, want.masking.closed_keys) << to_text(p);
  EXPECT_EQ(masking.mask_closes, want.masking.mask_closes) << to_text(p);
  EXPECT_EQ(masking.biased, want.masking.biased) << to_text(p);
  const double eta = std::fabs(want.masking.least_row_bias) * 0x1p-7;  // it is not rounded to storage
  EXPECT_NEAR(masking.least_row_bias, want.masking.least_row_bias, eta) << to_text(p);
  EXPECT_EQ(values_of(p).zero_row, want.values.zero_row) << to_text(p);
  if (p.softcap > 0 || want.scores.largest_product > 1e30) return;
  const Scores scores = scores_of(p);
  const double unit = 0x1p-6 * (1 + want.scores.largest_product * std::fabs(p.effective_scale()) +
                                want.scores.largest_spread + std::fabs(want.masking.least_row_bias)) +
                      0x1p-6 * std::fabs(want.scores.least_row_max);
  EXPECT_NEAR(scores.least_row_max, want.scores.least_row_max, unit) << to_text(p);
  EXPECT_NEAR(scores.largest_row_max, want.scores.largest_row_max, unit) << to_text(p);
  EXPECT_NEAR(scores.largest_spread, want.scores.largest_spread, 2 * unit) << to_text(p);
  // Its products may be larger than those of open keys.
  if (p.bias == Bias::none) {
    EXPECT_NEAR(scores.closed_lead, want.scores.closed_lead, 2 * unit + 0x1p-6 * want.scores.closed_lead) << to_text(p);
  }
}

TEST(Regime, AgreesWithTheTensors) {
  const Domain domain(Supports::everything(), {Format::f32, Format::f16, Format::bf16});
  int asked = 0, empty = 0, zero = 0, biased = 0;
  for (std::uint64_t i = 0; i < 6000; ++i) {
    const Problem problem = draw_problem(domain, 11, i, 1);
    if (!small(problem)) continue;
    expect_agreement(problem);
    ++asked;
    empty += masking_of(problem).open_keys == 0;
    biased += masking_of(problem).biased;
    zero += values_of(problem).zero_row;
  }
  EXPECT_GT(asked, 500);
  EXPECT_GT(empty, 20);
  EXPECT_GT(biased, 20);
  EXPECT_GT(zero, 20);
}

TEST(Regime, SeesWhatWasSetByHand) {
  const char* plain = "b=1 hq=2 hkv=1 lq=2 lk=3 d=2 dv=2 keep=open lengths=full bias=zero";
  Problem problem = problem_from_text(plain);
  EXPECT_EQ(masking_of(problem).open_keys, 3);
  EXPECT_FALSE(masking_of(problem).closed_keys);
  EXPECT_TRUE(masking_of(problem).last_key);
  problem.edits = {{Edit::Tensor::keep, {0, 1, 0, 2}, 0}, {Edit::Tensor::bias, {0, 0, 1, 0}, -4}};
  expect_agreement(problem);
  EXPECT_EQ(masking_of(problem).open_keys, 2);
  EXPECT_TRUE(masking_of(problem).biased);
  problem.edits = {{Edit::Tensor::kv_lengths, {0, 0, 0, 0}, 0}};
  expect_agreement(problem);
  EXPECT_EQ(masking_of(problem).open_keys, 0);
  EXPECT_FALSE(masking_of(problem).last_key);
  problem.edits = {
      {Edit::Tensor::v, {0, 0, 1, 0}, 0}, {Edit::Tensor::v, {0, 0, 1, 1}, 0}, {Edit::Tensor::q, {0, 1, 1, 0}, 64}};
  expect_agreement(problem);
  EXPECT_TRUE(values_of(problem).zero_row);
}

TEST(Regime, WindowsBehindTheLastKeyHaveNoKeys) {
  for (const char* keep : {"none", "counted"})
    for (const char* axes : {"7", "15"}) {
      const Problem none = problem_from_text(
          "b=1 hq=1 hkv=1 lq=4 lk=0 d=1 dv=1 window_left=1 keep=" + std::string(keep) + " keep_axes=" + axes);
      expect_agreement(none);
      EXPECT_EQ(masking_of(none).open_keys, 0);
      Problem few = none;
      few.lk = 2;
      expect_agreement(few);
    }
}

// A problem of a million keys costs no more than others.
TEST(Regime, LooksAtSomeOfMany) {
  const Problem problem = problem_from_text("b=1 hq=1 hkv=1 lq=8 lk=1048576 d=1 dv=1 causal=1 align=bottom_right");
  EXPECT_EQ(masking_of(problem).open_keys, 1048569);
  EXPECT_TRUE(masking_of(problem).closed_keys);
  EXPECT_GT(scores_of(problem).largest_product, 0);
  EXPECT_LT(values_of(problem).least, 0);
}

}  // namespace
}  // namespace attest::ops::of_attention
