#include "graph/arithmetic.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <set>
#include <vector>

#include "core/rng.hpp"
#include "graph/loops.hpp"
#include "graph/sums.hpp"
#include "tests/graph/draw.hpp"

namespace attest::graph {
namespace {

constexpr double inf = std::numeric_limits<double>::infinity();
constexpr Format formats[] = {Format::f16, Format::bf16, Format::f32};

// One number as member number `seed` rounds it.
double rounded(double x, Format format, std::uint64_t seed, Place place = 1) {
  member(seed)->round({&x, 1}, format, place);
  return x;
}

TEST(Member, RoundsToOneOfTheNeighbours) {
  test::Draw draw(1);
  for (int i = 0; i < 20000; ++i) {
    const Format format = formats[draw.below(3)];
    // Nearest gives one neighbour; the other is a unit in the last place towards x.
    const double x = std::ldexp(normal(draw.bits()), static_cast<int>(draw.below(30)) - 15);
    const double near = round_to(format, x);
    const double got = rounded(x, format, draw.bits());
    if (got == 0 && std::fabs(x) < smallest_normal(format)) continue;
    EXPECT_EQ(round_to(format, got), got);
    const double step =
        std::max(std::ldexp(1.0, std::ilogb(x) - precision(format) + 1), 2 * half_smallest_subnormal(format));
    EXPECT_LE(std::fabs(got - x), step) << x;
    if (near == x) {
      EXPECT_EQ(got, x);
    }
  }
}

// Rounding is by chance, but right on average: of numbers 3/8 of the way up, 3 of 8 go up.
TEST(Member, KeepsTheMean) {
  for (const Format format : formats) {
    for (const double sign : {1.0, -1.0}) {
      const double low = 1 + 0.25, high = low + std::ldexp(1.0, 1 - precision(format));
      int ups = 0;
      for (std::uint64_t seed = 0; seed < 8000; ++seed) {
        const double got = rounded(sign * (low + 0.375 * (high - low)), format, seed);
        ASSERT_TRUE(got == sign * low || got == sign * high);
        ups += got == sign * high;
      }
      EXPECT_NEAR(ups, 3000, 200);  // deviation 43
    }
  }
}

// Values of one cell go the same way at one place, other places and members on their own.
TEST(Member, RoundsEqualValuesAlike) {
  const auto one = member(7);
  int differ = 0;
  for (Place place = 0; place < 200; ++place) {
    double x[] = {0.1, 0.7, 0.1, 0.7}, y[] = {0.1, 0.1, 0.1, 0.1};
    one->round(x, Format::f16, place);
    EXPECT_EQ(x[0], x[2]);
    EXPECT_EQ(x[1], x[3]);
    one->round(y, Format::f16, place + 1);
    differ += x[0] != y[0];
  }
  EXPECT_GT(differ, 50);
}

TEST(Member, KnowsTheEndsOfAFormat) {
  std::set<double> seen;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    EXPECT_EQ(rounded(65504, Format::f16, seed), 65504);
    EXPECT_EQ(rounded(65519, Format::f16, seed), 65504) << "below the threshold of overflow";
    seen.insert(rounded(65530, Format::f16, seed));
    EXPECT_TRUE(std::isnan(rounded(NAN, Format::f32, seed)));
    EXPECT_EQ(rounded(-inf, Format::f32, seed), -inf);
    const double tiny = rounded(0x1p-30, Format::f16, seed);
    EXPECT_TRUE(tiny == 0 || tiny == 0x1p-24);
  }
  EXPECT_EQ(seen, (std::set<double>{65504, inf}));
}

// Subnormal results of f32 vanish in some places, never in others, and those of f16 in none.
TEST(Member, FlushesSubnormalsAtSomePlaces) {
  int flushed = 0;
  for (Place place = 0; place < 400; ++place) {
    flushed += rounded(0x1p-130, Format::f32, 3, place) == 0;
    EXPECT_EQ(rounded(0x1p-20, Format::f16, 3, place), 0x1p-20);
  }
  EXPECT_NEAR(flushed, 200, 60);
}

TEST(Member, ConvertsWithoutOverflow) {
  double lowest = -largest_finite(Format::f32);
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    double x = lowest;
    member(seed)->convert({&x, 1}, Format::bf16, 1);
    EXPECT_EQ(x, -largest_finite(Format::bf16));
  }
  nearest()->convert({&lowest, 1}, Format::f16, 1);
  EXPECT_EQ(lowest, -65504);
}

// The same on every machine and by every compiler: no part of it comes from the mathematical library.
TEST(Member, GivesTheSameBitsEverywhere) {
  std::uint64_t digest = 0;
  const auto one = member(42);
  const auto absorb = [&digest](std::span<const double> x) {
    for (const double v : x) digest = extend(digest, std::bit_cast<std::uint64_t>(v));
  };
  for (std::uint64_t i = 0; i < 100; ++i) {
    double x[] = {normal(extend(1, i)), normal(extend(2, i)) * 0x1p-128, 1e4 + normal(extend(3, i))};
    one->round(x, formats[i % 3], i);
    absorb(x);
    one->function(x, Format::f32, 4, 2, i);
    absorb(x);
    const double deviation[] = {0x1p-20, 0x1p-140, 0x1p-8};
    one->sum(x, {3, Format::f32, deviation, {}}, i);
    absorb(x);
  }
  EXPECT_EQ(digest, 12286586032445917787u);
}

TEST(Member, NoiseHasTheSizeItIsTold) {
  double function_squares = 0, sum_squares = 0;
  const int count = 20000;
  std::vector<double> x(count, 2.0), s(count, 5.0), deviation(count, 0x1p-10);
  member(1)->function(x, Format::f32, 3, 0, 1);
  member(1)->sum(s, {10, Format::f32, deviation, {}}, 2);
  for (int i = 0; i < count; ++i) {
    function_squares += (x[static_cast<std::size_t>(i)] - 2) * (x[static_cast<std::size_t>(i)] - 2);
    sum_squares += (s[static_cast<std::size_t>(i)] - 5) * (s[static_cast<std::size_t>(i)] - 5);
  }
  const double unit = 2 * 3 * 0x1p-24 / std::sqrt(3.0);
  EXPECT_NEAR(std::sqrt(function_squares / count) / unit, 1, 0.03);
  EXPECT_NEAR(std::sqrt(sum_squares / count) / 0x1p-10, 1, 0.03);
}

std::vector<double> deviations_of(const std::vector<double>& terms, Format accumulator = Format::f32) {
  double sum = 0, squares = 0;
  for (const double term : terms) {
    sum += term;
    squares += term * term;
  }
  return deviations(std::vector<double>{sum}, std::vector<double>{squares}, static_cast<Index>(terms.size()),
                    accumulator,
                    [&terms](Index, std::span<double> to) { std::copy(terms.begin(), terms.end(), to.begin()); });
}

TEST(Sums, FollowTheFormula) {
  // n = 4, s = 10, Q = 30, all terms different.
  EXPECT_NEAR(deviations_of({1, 2, 3, 4})[0], 0x1p-24 / std::sqrt(3.0) * std::sqrt(5 * (5 + 100.0 / 3) + 30), 1e-12);
  // Three terms of four are equal: (9 + 1)/4 times the walk. Zeros are no group.
  EXPECT_NEAR(deviations_of({2, 2, 2, 4})[0],
              0x1p-24 / std::sqrt(3.0) * std::sqrt(5 * (28 / 6.0 + 100.0 / 3) * 2.5 + 28), 1e-12);
  EXPECT_NEAR(deviations_of({0, 0, 0, 4})[0], 0x1p-24 / std::sqrt(3.0) * std::sqrt(5 * (16 / 6.0 + 16 / 3.0) + 16),
              1e-12);
  EXPECT_NEAR(deviations_of({1, 2}, Format::f64)[0], 0x1p-53 / std::sqrt(3.0) * std::sqrt(3 * (5 / 6.0 + 3) + 5),
              1e-25);
}

// Small numbers behind a large one are lost one by one, to one side: the real loss widens the model.
TEST(Sums, GrowWithWhatIsReallyLost) {
  std::vector<double> terms{0x1p25};
  double rest = 0;
  for (int i = 0; i < 5000; ++i) {
    terms.push_back(0.5 + i * 0x1p-14);
    rest += terms.back();
  }
  const double lost = rest;  // each is less than half a unit in the last place of 2^25
  EXPECT_NEAR(deviations_of(terms)[0] * 2.5, lost, 1e-6 * lost);
}

TEST(Sums, LeaveWhatIsNotFiniteUndetermined) {
  EXPECT_FALSE(std::isfinite(deviations_of({1, inf, 2})[0]));
  EXPECT_FALSE(std::isfinite(deviations_of({1, NAN, 2})[0]));
}

// A number's first 24 bits.
double cut(double x) { return std::bit_cast<double>(std::bit_cast<std::uint64_t>(x) >> 29 << 29); }

// a [m, k] times b [k, n].
void multiply(const std::vector<double>& a, const std::vector<double>& b, double* out, Index m, Index k, Index n,
              double* squares) {
  const auto strip = [&](Index row, Index rows, Index column, Index columns, double* to) {
    for (Index p = 0; p < rows; ++p) std::copy_n(b.begin() + (row + p) * n + column, columns, to + p * strip_columns);
  };
  multiply_matrices(a.data(), strip, out, m, k, n, squares, m);
}

// Each element is added up in the order of k whatever the tile, to the bit, infinities and NaN where they belong:
// float32, numbers of 53 bits, and rows of either.
TEST(Products, AreThoseOfPlainLoopsToTheBit) {
  const auto same = [](double x, double y) {
    return std::bit_cast<std::uint64_t>(x) == std::bit_cast<std::uint64_t>(y) || (std::isnan(x) && std::isnan(y));
  };
  for (const Index m : {1, 5, 6, 7, 13, 17})
    for (const Index k : {0, 1, 3, 40, 300})
      for (const Index n : {1, 7, 8, 9, 16, 33, 150})
        for (const Index longer_row : {m, Index{3}, Index{0}}) {  // from which on a has 53 bits
          std::vector<double> a, b, out(static_cast<std::size_t>(m * n), -1), squares(out.size(), -1);
          for (Index i = 0; i < m * k; ++i) {
            const double x = std::ldexp(normal(mix(static_cast<std::uint64_t>(i))), static_cast<int>(i % 60 - 30));
            a.push_back(i < longer_row * k ? cut(x) : x);
          }
          for (Index i = 0; i < k * n; ++i) {
            const double x = normal(mix(static_cast<std::uint64_t>(1000 + i)));
            b.push_back(longer_row > 0 ? cut(x) : x);
          }
          if (m == 13 && k > 0) a[static_cast<std::size_t>(4 * k)] = HUGE_VAL;
          if (n > 8 && n < 100 && k > 0) b[static_cast<std::size_t>(n - 1)] = std::nan("");
          multiply(a, b, out.data(), m, k, n, squares.data());
          for (Index i = 0; i < m; ++i)
            for (Index j = 0; j < n; ++j) {
              double sum = 0, sum_of_squares = 0;
              for (Index p = 0; p < k; ++p) {
                const double x = a[static_cast<std::size_t>(i * k + p)], y = b[static_cast<std::size_t>(p * n + j)];
                sum += x * y;
                sum_of_squares += cut(x * x) * cut(y * y);
              }
              const auto at = static_cast<std::size_t>(i * n + j);
              ASSERT_TRUE(same(out[at], sum)) << m << ' ' << k << ' ' << n << ' ' << i << ' ' << j << ' ' << out[at];
              ASSERT_TRUE(same(squares[at], sum_of_squares)) << m << ' ' << k << ' ' << n << ' ' << i << ' ' << j;
            }
        }
}

// Products of few bits that are not exact, at the ends of float64: fused with a sum they would give 4 units and 2^1023.
TEST(Products, AreNotTakenForExactAtTheEndsOfTheRange) {
  const auto product = [](std::vector<double> a, std::vector<double> b) {
    double out = 0;
    multiply(a, b, &out, 1, 2, 1, nullptr);
    return out;
  };
  EXPECT_EQ(product({0x1p-537, 2.5 * 0x1p-537}, {0x1p-537, 0x1p-537}), 3 * 0x1p-1074);
  EXPECT_EQ(product({0x1p600, 0x1p600}, {-0x1p423, 0x1p424}), HUGE_VAL);
}

}  // namespace
}  // namespace attest::graph
