#include "kernels/arithmetic.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "kernels/rounding.hpp"

namespace attest::kernels {
namespace {

bool same(float x, float y) { return std::bit_cast<std::uint32_t>(x) == std::bit_cast<std::uint32_t>(y); }

template <class Round>
void expect_rounds_like_core(Format format, Round round) {
  // A stride coprime to 2^32 meets every exponent; every tie and its neighbours follow.
  std::uint32_t bits = 0;
  for (int n = 0; n < 3'000'000; ++n, bits += 2654435761u) {
    const auto x = std::bit_cast<float>(bits);
    if (std::isnan(x)) {
      EXPECT_TRUE(std::isnan(round(x)));
      continue;
    }
    ASSERT_TRUE(same(round(x), round_to(format, x))) << name(format) << ' ' << x;
  }
  for (std::uint32_t top = 0; top < 1u << 19; ++top)
    for (const std::uint32_t low : {0u, 0x0fffu, 0x1000u, 0x1001u, 0x1fffu}) {
      const auto x = std::bit_cast<float>(top << 13 | low);
      if (std::isnan(x)) continue;
      ASSERT_TRUE(same(round(x), round_to(format, x))) << name(format) << ' ' << x;
    }
}

TEST(Rounding, InLanesIsThatOfCore) {
  expect_rounds_like_core(Format::f16, To<Format::f16>{});
  expect_rounds_like_core(Format::bf16, To<Format::bf16>{});
  expect_rounds_like_core(Format::tf32, To<Format::tf32>{});
  const float values[] = {1.0004885f, -65519.996f, 65520.f,  3e-8f, -0.f,         1e-5f,
                          6.1e-5f,    0.1f,        INFINITY, -7.f,  5.9604645e-8f};
  for (const Format format : {Format::f16, Format::bf16, Format::tf32, Format::f32}) {
    std::vector<float> x(values, values + std::size(values));
    x.resize(static_cast<std::size_t>(padded(std::ssize(x))));
    const std::vector<float> before = x;
    round_all(format, x.data(), std::ssize(x));
    for (std::size_t i = 0; i < x.size(); ++i) EXPECT_TRUE(same(x[i], round_to(format, before[i]))) << before[i];
  }
}

// A dot product in a narrow format is the recurrence with a rounding after every operation, whatever the lanes.
TEST(Dot, RoundsEveryOperationInOrder) {
  constexpr Index d = 7, n = 27;
  std::vector<float> q(d), keys(d * padded(n)), dots(static_cast<std::size_t>(padded(n)));
  for (std::size_t i = 0; i < q.size(); ++i) q[i] = 1.f / static_cast<float>(i + 1);
  for (std::size_t i = 0; i < keys.size(); ++i) keys[i] = std::sin(static_cast<float>(i));
  for (const Format format : {Format::f16, Format::bf16, Format::tf32, Format::f32}) {
    dot_keys(format, q.data(), keys.data(), padded(n), d, n, dots.data());
    for (std::size_t j = 0; j < n; ++j) {
      float sum = 0;
      for (std::size_t e = 0; e < d; ++e) {
        const float product = round_to(format, q[e] * keys[e * static_cast<std::size_t>(padded(n)) + j]);
        sum = round_to(format, sum + product);
      }
      EXPECT_TRUE(same(dots[j], sum)) << name(format) << ' ' << j;
    }
  }
}

// The promises of the contracts: exp within 0.51 ulp of the softmax format, e^x in f32 within 0.8, exactly 1 at 0, 0 at
// -inf, NaN for NaN.
TEST(Powers, StayWithinTheirPromise) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  std::vector<float> x, powers;
  for (float t = -150; t <= 0; t += 0.00013f) x.push_back(t);
  for (float t = -1; t < -1e-30f; t *= 0.97f) x.push_back(t);
  while (std::ssize(x) % padding != 0) x.push_back(0);
  powers.resize(x.size());
  const auto n = std::ssize(x);
  for (const Base base : {Base::e, Base::two}) {
    for (const Format format : {Format::f32, Format::f16, Format::bf16}) {
      powers_above(format, base, x.data(), 0.f, n, powers.data());
      for (std::size_t i = 0; i < x.size(); ++i) {
        const double t = round_to(format, static_cast<double>(x[i]));
        const double exact = base == Base::e ? std::exp(t) : std::exp2(t);
        const double ulp = std::max(std::exp2(std::floor(std::log2(exact)) + 1) * unit_roundoff(format),
                                    2 * half_smallest_subnormal(format));
        const double promised = base == Base::e && format == Format::f32 ? 0.8 : 0.51;
        ASSERT_LE(std::fabs(powers[i] - exact), promised * ulp) << name(format) << ' ' << x[i];
        ASSERT_TRUE(same(power(format, base, static_cast<float>(t)), powers[i])) << name(format) << ' ' << x[i];
      }
    }
    std::vector<float> special{0.f, -infinity, std::nanf(""), -1e30f, -0.f, infinity, 0.f, 0.f}, result(8);
    powers_above(Format::f32, base, special.data(), 0.f, 8, result.data());
    EXPECT_EQ(result[0], 1);
    EXPECT_EQ(result[1], 0);
    EXPECT_TRUE(std::isnan(result[2]));
    EXPECT_EQ(result[3], 0);
    EXPECT_EQ(result[4], 1);
    EXPECT_EQ(result[5], infinity);
  }
}

}  // namespace
}  // namespace attest::kernels
