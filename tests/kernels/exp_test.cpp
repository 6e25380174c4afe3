#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <vector>

#include "kernels/explicit/explicit.hpp"
#include "kernels/loops.hpp"

// exp of f32 in lanes, over all floats: one in 9,973, all of them where ATTEST_EVERY_FLOAT is set.
namespace attest::kernels {
namespace {

constexpr std::uint64_t floats = std::uint64_t{1} << 32, block = 1 << 16;
const std::uint64_t stride = std::getenv("ATTEST_EVERY_FLOAT") ? 1 : 9973;
constexpr float infinity = std::numeric_limits<float>::infinity();

// Returns how far y is off e^x, in ulp of e^x, subnormal ones included; infinite where one is NaN and the other is not.
double ulps_off(float x, float y) {
  if (std::isnan(x) != std::isnan(y)) return infinity;
  if (std::isnan(x)) return 0;
  const double exact = std::exp(static_cast<double>(x));
  if (exact >= 0x1.ffffffp127) return y == infinity ? 0 : infinity;
  if (!std::isfinite(y)) return infinity;
  const int exponent = exact == 0 ? -150 : std::ilogb(exact);
  return std::fabs(y - exact) / std::ldexp(1.0, std::max(exponent, -126) - 23);
}

// Calls judge(x, powers) with one block of arguments after another.
template <class Judge>
void for_all_floats(const Loops& loops, const Judge& judge) {
  std::vector<float> x(block), powers(block);
  for (std::uint64_t first = 0; first < floats; first += block * stride) {
    for (std::uint64_t n = 0; n < block; ++n)
      x[n] = std::bit_cast<float>(static_cast<std::uint32_t>(std::min(first + n * stride, floats - 1)));
    loops.powers(x.data(), 0, block, powers.data());
    judge(x, powers);
  }
}

TEST(Exp, StaysWithinItsPromiseOnAllFloats) {
  const double promised = explicit_contract(Policy(Format::f32)).arithmetic.exp_ulp;
  double worst = 0, worst_subnormal = 0;
  float at = 0;
  for_all_floats(*loops_of(Isa::least), [&](const std::vector<float>& x, const std::vector<float>& powers) {
    for (std::size_t n = 0; n < x.size(); ++n) {
      const double off = ulps_off(x[n], powers[n]);
      double& most = powers[n] < 0x1p-126f ? worst_subnormal : worst;
      if (!(off <= most)) most = off, at = x[n];
    }
  });
  std::printf("exp is at most %.4f ulp off (%.4f where its result is subnormal); last rise at %a\n", worst,
              worst_subnormal, static_cast<double>(at));
  EXPECT_LE(worst, promised);
  EXPECT_LE(worst_subnormal, promised);
  EXPECT_GT(worst, 0.5);  // it is no table of right results
}

TEST(Exp, TheMeasureSeesAnUlp) {
  const float right = static_cast<float>(std::exp(-1.0));
  EXPECT_LE(ulps_off(-1, right), 0.5);
  EXPECT_GT(ulps_off(-1, std::nextafter(std::nextafter(right, 1.f), 1.f)), 0.8);
  EXPECT_EQ(ulps_off(-1, std::nanf("")), infinity);
  EXPECT_GT(ulps_off(-100, 0), 20);  // a subnormal result that was flushed
}

TEST(Exp, HasItsEnds) {
  for (const Isa isa : {Isa::least, Isa::avx2, Isa::avx512}) {
    const Loops* loops = loops_of(isa);
    if (!loops) continue;
    const float x[16] = {0.f,  -0.f,   infinity, -infinity, std::nanf(""), 1e30f,      -1e30f, 88.7f,
                         89.f, -104.f, -103.9f,  -87.4f,    0x1p-149f,     -0x1p-149f, 1.f,    300.f};
    float y[16];
    loops->powers(x, 0, 16, y);
    EXPECT_EQ(y[0], 1);
    EXPECT_EQ(y[1], 1);
    EXPECT_EQ(y[2], infinity);
    EXPECT_EQ(y[3], 0);
    EXPECT_TRUE(std::isnan(y[4]));
    EXPECT_EQ(y[5], infinity);
    EXPECT_EQ(y[6], 0);
    EXPECT_LT(y[7], infinity);
    EXPECT_EQ(y[8], infinity);
    EXPECT_EQ(y[9], 0);
    EXPECT_EQ(y[10], 0x1p-149f);
    EXPECT_GT(y[11], 0);
    EXPECT_EQ(y[12], 1);
    EXPECT_EQ(y[13], 1);
    EXPECT_EQ(y[15], infinity);
  }
}

class ExpBits : public testing::TestWithParam<Isa> {};
TEST_P(ExpBits, AreThoseOfTheLeastMachine) {
  const Loops* loops = loops_of(GetParam());
  if (!loops) GTEST_SKIP() << "this machine, or this build, has no such instruction set";
  std::vector<float> least(block);
  for_all_floats(*loops, [&](const std::vector<float>& x, const std::vector<float>& powers) {
    loops_of(Isa::least)->powers(x.data(), 0, block, least.data());
    for (std::size_t n = 0; n < x.size(); ++n) {
      const bool same = std::bit_cast<std::uint32_t>(powers[n]) == std::bit_cast<std::uint32_t>(least[n]);
      ASSERT_TRUE(same || (std::isnan(powers[n]) && std::isnan(least[n]))) << x[n];
    }
  });
}
INSTANTIATE_TEST_SUITE_P(All, ExpBits, testing::Values(Isa::avx2, Isa::avx512),
                         [](const auto& info) { return info.param == Isa::avx2 ? "avx2" : "avx512"; });

}  // namespace
}  // namespace attest::kernels
