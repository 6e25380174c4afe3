// The variants take the liberties that they promise, to the full and no further.
#include "kernels/fused/variants.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

#include "core/rng.hpp"
#include "kernels/flush.hpp"
#include "kernels/truncating.hpp"
#include "tests/kernels/support.hpp"

namespace attest::kernels::test {
namespace {

// The next number of the format away from zero.
double outwards(Format format, double x) {
  const double step = std::max(2 * unit_roundoff(format) * std::fabs(x), 2 * half_smallest_subnormal(format));
  for (double factor = 0.25;; factor *= 1.2)
    if (const double y = round_to(format, x + std::copysign(factor * step, x)); y != x) return y;
}

TEST(Truncating, IsTheLargestNumberNotBeyond) {
  std::uint64_t key = 1;
  for (const Format format : {Format::f16, Format::bf16, Format::tf32, Format::f32})
    for (int n = 0; n < 20'000; ++n) {
      key = mix(key);
      const int least = min_exponent(format) - precision(format) - 1;
      const double x = symmetric_uniform(key) * std::ldexp(1, static_cast<int>(below(mix(key), 40)) + least);
      if (x == 0) continue;
      const double cut = truncated(format, x);
      ASSERT_EQ(cut, round_to(format, cut)) << name(format) << ' ' << x;
      ASSERT_LE(std::fabs(cut), std::fabs(x)) << name(format) << ' ' << x;
      ASSERT_GT(std::fabs(outwards(format, std::copysign(cut, x))), std::fabs(x)) << name(format) << ' ' << x;
    }
  EXPECT_EQ(truncated(Format::f32, 1 - 0x1p-30), 1 - 0x1p-24);
  EXPECT_EQ(truncated(Format::f16, 1e6), INFINITY);
  EXPECT_TRUE(std::isnan(truncated(Format::f16, NAN)));
}

// 1 and 255 times just under an ulp of it: to nearest the sum rises by 255 ulp, cut it stays.
TEST(Truncating, LosesWhatRoundingKeeps) {
  std::vector<double> terms(256, 0x1.fp-24);
  terms[0] = 1;
  EXPECT_EQ(truncating_sum(Format::f32, 0, terms.data(), 256), 1);
  const auto nearest = [](double sum, double x) { return round_to(Format::f32, sum + x); };
  EXPECT_EQ(std::accumulate(terms.begin(), terms.end(), 0.0, nearest), 1 + 255 * 0x1p-23);
}

TEST(Flush, HoldsForItsScopeAndNoLonger) {
  const volatile float tiny = 0x1p-100F;
  const float before = tiny * tiny * 0x1p80F, subnormal = tiny * 0x1p-40F;
  ASSERT_GT(subnormal, 0);
  {
    const FlushSubnormals flushing(true);
#if defined(__SSE2__) || defined(__aarch64__)
    EXPECT_EQ(tiny * 0x1p-40F, 0);
#endif
    const FlushSubnormals not_asked(false);
  }
  EXPECT_EQ(tiny * 0x1p-40F, subnormal);
  EXPECT_EQ(tiny * tiny * 0x1p80F, before);
}

TEST(PoorExp, IsOffByAlmostTwentyUlpAndNoMore) {
  const Call call;  // f32
  double largest = 0;
  for (int n = 0; n <= 200'000; ++n) {
    const float x = -20.F * static_cast<float>(n) / 200'000.F;
    const double exact = std::exp(static_cast<double>(x));
    const double ulp = std::ldexp(1, std::ilogb(exact) - 23);
    largest = std::max(largest, std::fabs(PoorExpSteps::power(call, Base::e, x) - exact) / ulp);
  }
  EXPECT_GT(largest, 18);
  EXPECT_LE(largest, 20);
  EXPECT_EQ(PoorExpSteps::power(call, Base::e, 0.F), 1);
}

// Scores that rise by less than 8 ln 2 from tile to tile leave the first maximum in place, larger steps do not.
TEST(Lazy, LagsByEightBinades) {
  const double lag = LazySteps::lag(Policy(Format::f32));
  EXPECT_DOUBLE_EQ(lag, 8 * std::log(2.0));
  EXPECT_EQ(LazySteps::lag(policy_from_text("f16-acc16")), 0);
  EXPECT_EQ(LazySteps::lag(policy_from_text("f16-softmax16")), 0);
  EXPECT_EQ(*builtin("fused-lazy").contract(Policy(Format::f32)).arithmetic.lazy, lag);
}

// Each promise is the kernel's own, and all others are those of its parent.
TEST(Variants, PromiseWhatTheyDo) {
  const auto promise = [](std::string_view name) { return builtin(name).contract(Policy(Format::f32)).arithmetic; };
  const Arithmetic plain = promise("fused");
  Arithmetic expected = plain;
  expected.kappa = 3;
  EXPECT_EQ(promise("fused-truncating"), expected);
  expected = plain;
  expected.mma = Mma{.block = 8, .frac = 24, .out = MmaResult::f32, .only = true};
  EXPECT_EQ(promise("fused-ampere"), expected);
  expected = plain;
  expected.flush_to_zero = true;
  EXPECT_EQ(promise("fused-flush"), expected);
  expected = plain;
  expected.exp_ulp = 20;
  EXPECT_EQ(promise("fused-poor-exp"), expected);
  expected = plain;
  expected.fold_k = true;
  EXPECT_EQ(promise("fused-scale-k"), expected);
  expected = plain;
  expected.fold_sqrt = true;
  EXPECT_EQ(promise("fused-scale-sqrt"), expected);
  expected = plain;
  expected.sum_of_rounded = true;
  expected.sum_of_unrounded = false;
  EXPECT_EQ(promise("fused-sum-rounded"), expected);
  expected = promise("fused-split");
  expected.lse_merge = LseMerge::chain;
  EXPECT_EQ(promise("fused-split-chain"), expected);
  expected = promise("fused-split");
  expected.merge_weights = MergeWeights::lse;
  EXPECT_EQ(promise("fused-split-lse-weights"), expected);
  expected = promise("explicit");
  expected.normalise_before = false;
  expected.normalise_lse = true;
  EXPECT_EQ(promise("explicit-lse"), expected);
}

}  // namespace
}  // namespace attest::kernels::test
