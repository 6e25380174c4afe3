// Balls hold every result, and rounding an exact number to a format does what core's rounding of doubles does.
#include "certify/ball.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "certify/rounding.hpp"
#include "core/rng.hpp"

namespace attest::certify {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr Format formats[] = {Format::f16, Format::bf16, Format::tf32, Format::f32, Format::f64};

double rounded(const Ball& x, Format format) { return certify::rounded(arb_midref(x.get()), format); }

TEST(Ball, HoldsWhatItsArgumentsMayGive) {
  const Precision precision(64);
  const Ball third = Ball(1) / 3;
  EXPECT_FALSE(certainly_less(third * 3, 1));
  EXPECT_FALSE(certainly_less(1, third * 3));
  EXPECT_TRUE(may_reach(third * 3, 1));
  EXPECT_TRUE(certainly_less(third, 0.34));
  EXPECT_FALSE(may_reach(third, 0.34));
}

TEST(Ball, NotANumberIsNeverCertain) {
  for (const Ball& x : {Ball(0) / 0, log(-1), Ball(std::nan(""))}) {
    EXPECT_FALSE(x.is_finite());
    EXPECT_FALSE(certainly_less(x, 1));
    EXPECT_FALSE(certainly_less(1, x));
    EXPECT_TRUE(may_reach(x, 1e300));
    EXPECT_EQ(x.text(), "unbounded");
  }
}

TEST(Ball, MorePrecisionTellsMoreApart) {
  const auto apart = [](std::int64_t bits) {
    const Precision precision(bits);
    return certainly_less(exp(1), exp(1) + Ball(0x1p-300));
  };
  EXPECT_FALSE(apart(256));
  EXPECT_TRUE(apart(512));
}

TEST(Ball, TheTighterOfTwoBoundsIsTheOneThatIsInRange) {
  const Ball beyond = exp(exp(Ball(1e6)));
  EXPECT_FALSE(beyond.is_finite());
  EXPECT_FALSE(certainly_less(tighter(beyond, 2), 2));
  EXPECT_TRUE(certainly_less(tighter(beyond, 2), 3));
  EXPECT_TRUE(certainly_less(tighter(2, beyond), 3));
  EXPECT_TRUE(certainly_less(tighter(2, 1), 1.5));
}

TEST(Rounding, IsThatOfDoubles) {
  std::uint64_t key = 1;
  for (int n = 0; n < 200'000; ++n) {
    key = mix(key);
    double x = std::bit_cast<double>(key);
    if (n % 2 != 0)
      x = std::ldexp(static_cast<double>(key >> 40) - 0x1p23, static_cast<int>(below(mix(key), 300)) - 170);
    if (!std::isfinite(x)) continue;
    for (const Format format : formats) ASSERT_EQ(rounded(x, format), round_to(format, x)) << x << " " << name(format);
  }
}

TEST(Rounding, TiesGoToEvenAndPastTheLargestToInfinity) {
  const Precision precision(4096);
  for (const Format format : formats) {
    const Ball above = 1 + Ball(unit_roundoff(format)), ulp = 2 * Ball(unit_roundoff(format)),
               bit = Ball(0x1p-1000) * 0x1p-1000;
    EXPECT_EQ(rounded(above, format), 1);
    EXPECT_EQ(rounded(above + bit, format), 1 + 2 * unit_roundoff(format));
    EXPECT_EQ(rounded(above + ulp, format), 1 + 4 * unit_roundoff(format));
    const Ball smallest = Ball(smallest_normal(format)) * 2 * unit_roundoff(format);
    EXPECT_EQ(rounded(smallest / 2, format), 0);
    EXPECT_GT(rounded(smallest / 2 + bit, format), 0);
    EXPECT_EQ(rounded(smallest * 3 / 2, format), 2 * rounded(smallest, format));
    const double largest = largest_finite(format);
    const Ball half_ulp = Ball(largest) / 2 * unit_roundoff(format) / (1 - Ball(unit_roundoff(format)));
    EXPECT_EQ(rounded(largest + half_ulp - bit, format), largest) << name(format);
    EXPECT_EQ(rounded(largest + half_ulp, format), infinity) << name(format);
    EXPECT_EQ(rounded(-(largest + half_ulp), format), -infinity) << name(format);
  }
}

}  // namespace
}  // namespace attest::certify
