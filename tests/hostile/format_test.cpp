// The rounding of the hostile kernel, held against every number of the small formats.
#include "format.hpp"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace hostile {
namespace {

/// All numbers of a format from 0 on, in order, from their definition.
std::vector<double> numbers_of(const Format& format) {
  std::vector<double> numbers;
  const std::int64_t steps = std::int64_t{1} << (format.precision - 1);
  for (std::int64_t i = 0; i < steps; ++i) numbers.push_back(static_cast<double>(i) * format.spacing);
  for (int exponent = format.least; numbers.back() < format.largest; ++exponent)
    for (std::int64_t i = 0; i < steps; ++i)
      numbers.push_back(std::ldexp(static_cast<double>(steps + i), exponent - format.precision + 1));
  return numbers;
}

class Small : public testing::TestWithParam<int> {
 protected:
  const Format& format = formats[GetParam()];
};

TEST_P(Small, TheLastNumberIsTheLargest) { EXPECT_EQ(numbers_of(format).back(), format.largest); }

TEST_P(Small, EveryNumberMidpointAndNeighbourRoundsAsDefined) {
  const std::vector<double> numbers = numbers_of(format);
  for (std::size_t i = 0; i + 1 < numbers.size(); ++i) {
    const double low = numbers[i], high = numbers[i + 1], middle = (low + high) / 2;
    const double even = i % 2 == 0 ? low : high;
    for (const double sign : {1.0, -1.0}) {
      ASSERT_EQ(nearest(sign * low, format), sign * low);
      ASSERT_EQ(nearest(sign * middle, format), sign * even) << middle;
      ASSERT_EQ(nearest(sign * std::nextafter(middle, 0), format), sign * low) << middle;
      ASSERT_EQ(nearest(sign * std::nextafter(middle, INFINITY), format), sign * high) << middle;
      ASSERT_EQ(toward_zero(sign * low, format), sign * low);
      ASSERT_EQ(toward_zero(sign * middle, format), sign * low);
      ASSERT_EQ(toward_zero(sign * std::nextafter(high, 0), format), sign * low);
    }
    ASSERT_EQ(step(low, format), high - low);
  }
}

TEST_P(Small, TheEdgeIsTheLastNumberWithinTheUlps) {
  const std::vector<double> numbers = numbers_of(format);
  std::mt19937_64 random(7);
  for (int tried = 0; tried < 200000; ++tried) {
    const std::size_t i = random() % (numbers.size() - 3000) + 1;
    const double part = static_cast<double>(random() % 1024) / 1024;
    const double exact = numbers[i] + part * (numbers[i + 1] - numbers[i]);
    const double ulps = 0.5 + static_cast<double>(random() % 64) / 8;
    const int side = random() % 2 == 0 ? 1 : -1;
    const double got = at_edge(exact, ulps, side, format);
    const double allowed = ulps * step(exact, format);
    ASSERT_LE(std::fabs(got - exact), allowed) << exact << " " << ulps;
    ASSERT_EQ(nearest(got, format), got);
    const double further = got + side * 1.001 * step(got, format);  // past the next number in that direction
    if (std::fabs(exact) > 16 * format.spacing && part != 0) {
      ASSERT_GT(std::fabs(further - exact), allowed * (1 - 0x1p-30))
          << exact << " " << ulps << " " << side << " " << got;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, Small, testing::Values(0, 1, 2),
                         [](const auto& info) { return std::string(formats[info.param].name); });

TEST(Format, PastTheLargestIsInfinite) {
  for (int i = 0; i < 3; ++i) {
    const double half = step(formats[i].largest, formats[i]) / 2;
    EXPECT_EQ(nearest(formats[i].largest + half, formats[i]), INFINITY);
    EXPECT_EQ(nearest(std::nextafter(formats[i].largest + half, 0), formats[i]), formats[i].largest);
    EXPECT_EQ(nearest(-1e300, formats[i]), -INFINITY);
    EXPECT_TRUE(std::isnan(nearest(NAN, formats[i])));
  }
}

TEST(Format, ASumIsRoundedOnce) {
  // 1 + 2^-11 lies midway between numbers of f16, and what is added decides although double loses it.
  EXPECT_EQ(add(1 + 0x1p-11, 0x1p-80, formats[0]), 1 + 0x1p-10);
  EXPECT_EQ(add(1 + 0x1p-11, -0x1p-80, formats[0]), 1.0);
  EXPECT_EQ(multiply(1 + 0x1p-30, 1 + 0x1p-30, formats[3]), nearest(1 + 0x1p-29, formats[3]));
  EXPECT_EQ(fused(1 + 0x1p-12, 1 - 0x1p-12, 0x1p-24, formats[3]), 1.0);
}

}  // namespace
}  // namespace hostile
