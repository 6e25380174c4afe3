// The softcap's tanh, made in lanes, has the bits of the C library's, rounded to float: over all floats, one in 9,973
// of them, or all where ATTEST_EVERY_FLOAT is set.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "kernels/scores.hpp"

namespace attest::kernels {
namespace {

constexpr std::uint64_t floats = std::uint64_t{1} << 32, block = 1 << 12;
const std::uint64_t stride = std::getenv("ATTEST_EVERY_FLOAT") ? 1 : 9973;

// Returns `scores` after the softcap, in f32.
std::vector<float> capped(double softcap, std::vector<float> scores) {
  Call call;
  call.policy = Policy(Format::f32);
  call.softcap = softcap;
  apply_softcap(call, scores.data(), std::ssize(scores));
  return scores;
}

bool same(float x, float y) {
  return std::bit_cast<std::uint32_t>(x) == std::bit_cast<std::uint32_t>(y) || (std::isnan(x) && std::isnan(y));
}

TEST(Softcap, HasTheBitsOfTheLibrarysTanhOnAllFloats) {
  std::vector<float> x(block);
  for (std::uint64_t first = 0; first < floats; first += block * stride) {
    for (std::uint64_t n = 0; n < block; ++n)
      x[n] = std::bit_cast<float>(static_cast<std::uint32_t>(std::min(first + n * stride, floats - 1)));
    const std::vector<float> y = capped(1, x);
    for (std::uint64_t n = 0; n < block; ++n)
      ASSERT_TRUE(same(y[n], static_cast<float>(std::tanh(static_cast<double>(x[n]))))) << x[n];
  }
}

// Any number of scores, and a cap that divides and multiplies.
TEST(Softcap, OfAnyNumberOfScores) {
  for (std::size_t n = 0; n < 140; ++n) {
    std::vector<float> x(n);
    for (std::size_t j = 0; j < n; ++j) x[j] = (static_cast<float>(j) - 60.25F) * 1.37F;
    const std::vector<float> y = capped(30, x);
    for (std::size_t j = 0; j < n; ++j)
      ASSERT_TRUE(same(y[j], static_cast<float>(std::tanh(static_cast<double>(x[j] / 30.0F))) * 30.0F))
          << n << " " << j;
  }
}

}  // namespace
}  // namespace attest::kernels
