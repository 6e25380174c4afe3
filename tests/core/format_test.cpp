#include "core/format.hpp"

#include <gtest/gtest.h>

#include <cfenv>
#include <cstring>
#include <vector>

#include "attest/plugin.h"
#include "core/encode.hpp"
#include "core/rng.hpp"

namespace attest {
namespace {

constexpr Format every[] = {Format::f16, Format::bf16, Format::tf32, Format::f32, Format::f64};
constexpr Format narrow[] = {Format::f16, Format::bf16, Format::tf32};

// A value of the format from its own definition: sign, exponent, significand.
double decode_by_definition(std::uint16_t bits, int exponent_bits, int fraction_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = (bits >> fraction_bits) & ((1 << exponent_bits) - 1);
  const int fraction = bits & ((1 << fraction_bits) - 1);
  const double sign = bits >> 15 ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1) return fraction ? std::nan("") : sign * INFINITY;
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias - fraction_bits);
  return sign * std::ldexp((1 << fraction_bits) + fraction, exponent - bias - fraction_bits);
}

// Rounding from its definition: the scaled value to the nearest integer, ties to even.
double round_by_definition(Format format, double x) {
  if (!std::isfinite(x) || x == 0) return x;
  const int exponent = std::max(std::ilogb(x), min_exponent(format));
  const int shift = exponent - precision(format) + 1;
  const double rounded = std::ldexp(std::nearbyint(std::ldexp(x, -shift)), shift);
  return std::fabs(rounded) > largest_finite(format) ? std::copysign(INFINITY, x) : rounded;
}

bool same(double a, double b) { return std::memcmp(&a, &b, sizeof a) == 0 || (std::isnan(a) && std::isnan(b)); }

TEST(Format, DecodesEvery16BitPattern) {
  for (unsigned bits = 0; bits < 65536; ++bits) {
    const auto pattern = static_cast<std::uint16_t>(bits);
    ASSERT_TRUE(same(decode_f16(pattern), decode_by_definition(pattern, 5, 10))) << std::hex << bits;
    ASSERT_TRUE(same(decode_bf16(pattern), decode_by_definition(pattern, 8, 7))) << std::hex << bits;
  }
}

TEST(Format, EncodesEvery16BitPatternBack) {
  for (unsigned bits = 0; bits < 65536; ++bits) {
    const auto pattern = static_cast<std::uint16_t>(bits);
    ASSERT_TRUE(std::isnan(decode_f16(pattern)) || encode_f16(decode_f16(pattern)) == pattern);
    ASSERT_TRUE(std::isnan(decode_bf16(pattern)) || encode_bf16(decode_bf16(pattern)) == pattern);
  }
  EXPECT_TRUE(std::isnan(decode_f16(encode_f16(NAN))));
  EXPECT_TRUE(std::isnan(decode_bf16(encode_bf16(NAN))));
}

// Every midpoint between neighbours, and the doubles next to it: the hardest cases for a conversion.
template <class Decode>
void check_midpoints(Format format, Decode decode, std::uint16_t (*encode)(double)) {
  for (unsigned bits = 0; bits < 0x7fff; ++bits) {
    const double low = decode(static_cast<std::uint16_t>(bits));
    if (!std::isfinite(low)) break;
    double high = decode(static_cast<std::uint16_t>(bits + 1));
    if (std::isinf(high)) high = 2 * largest_finite(format) - decode(static_cast<std::uint16_t>(bits - 1));
    const double middle = low + (high - low) / 2;
    for (const double x : {std::nextafter(middle, 0), middle, std::nextafter(middle, INFINITY)})
      for (const double signed_x : {x, -x}) {
        ASSERT_TRUE(same(round_to(format, signed_x), round_by_definition(format, signed_x))) << signed_x;
        ASSERT_TRUE(same(decode(encode(signed_x)), round_by_definition(format, signed_x))) << signed_x;
      }
  }
}
TEST(Format, RoundsMidpointsOfF16) { check_midpoints(Format::f16, decode_f16, encode_f16); }
TEST(Format, RoundsMidpointsOfBf16) { check_midpoints(Format::bf16, decode_bf16, encode_bf16); }

// The conversions with which plug-ins store: next to a midpoint, rounding to float first would make a tie of it.
TEST(Format, AFloatToOddRoundsAsItsDoubleDoes) {
  check_midpoints(Format::f16, decode_f16, [](double x) { return attest_f16_store(attest_float_to_odd(x)); });
  check_midpoints(Format::bf16, decode_bf16, [](double x) { return attest_bf16_store(attest_float_to_odd(x)); });
  for (std::uint64_t i = 0; i < 200000; ++i) {
    const double x = std::bit_cast<double>(mix(i));
    ASSERT_TRUE(same(decode_f16(attest_f16_store(attest_float_to_odd(x))), round_by_definition(Format::f16, x))) << x;
    ASSERT_TRUE(same(decode_bf16(attest_bf16_store(attest_float_to_odd(x))), round_by_definition(Format::bf16, x)))
        << x;
  }
}

TEST(Format, RoundsRandomBitPatterns) {
  for (std::uint64_t i = 0; i < 200000; ++i) {
    const double wide = std::bit_cast<double>(mix(i));
    const auto single = std::bit_cast<float>(static_cast<std::uint32_t>(mix(i ^ 0xABCDEF)));
    for (const Format format : every) {
      ASSERT_TRUE(same(round_to(format, wide), round_by_definition(format, wide))) << wide;
      ASSERT_TRUE(same(round_to(format, static_cast<double>(single)),
                       round_by_definition(format, static_cast<double>(single))));
    }
    for (const Format format : narrow)
      ASSERT_TRUE(same(static_cast<double>(round_to(format, single)),
                       round_by_definition(format, static_cast<double>(single))));
  }
}

#if defined(__FLT16_MAX__)
TEST(Format, AgreesWithTheCompilersHalf) {
  for (std::uint64_t i = 0; i < 1000000; ++i) {
    const auto x = std::bit_cast<float>(static_cast<std::uint32_t>(mix(i)));
    if (std::isnan(x)) continue;
    const auto half = static_cast<_Float16>(x);
    std::uint16_t bits = 0;
    std::memcpy(&bits, &half, sizeof bits);
    ASSERT_EQ(attest_f16_store(x), bits) << x;
    ASSERT_EQ(encode_f16(static_cast<double>(x)), bits) << x;
    ASSERT_TRUE(same(static_cast<double>(attest_f16_load(bits)), static_cast<double>(static_cast<float>(half))));
  }
}
#endif

// Many at once have the bits of one after the other: any double, and those at and beside every boundary.
TEST(Format, ManyAreEncodedAsOneIs) {
  std::vector<double> numbers;
  for (std::uint64_t i = 0; i < 300000; ++i) {
    const std::uint64_t bits = mix(i);
    numbers.push_back(std::bit_cast<double>(bits));
    numbers.push_back(std::ldexp(symmetric_uniform(mix(bits)), static_cast<int>(below(bits, 300)) - 160));
    numbers.push_back(std::ldexp(symmetric_uniform(mix(bits)), static_cast<int>(below(bits, 48)) - 28));
  }
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits)
    for (const auto decode : {decode_f16, decode_bf16}) {
      const double x = decode(static_cast<std::uint16_t>(bits)), next = decode(static_cast<std::uint16_t>(bits + 1)),
                   half = x / 2 + next / 2;
      for (const double y : {x, half, std::nextafter(half, INFINITY), std::nextafter(half, -INFINITY)})
        numbers.push_back(y);
    }
  std::vector<std::uint16_t> f16(numbers.size()), bf16(numbers.size());
  encode_f16(numbers, f16.data());
  encode_bf16(numbers, bf16.data());
  for (std::size_t n = 0; n < numbers.size(); ++n) {
    ASSERT_EQ(f16[n], encode_f16(numbers[n])) << numbers[n];
    ASSERT_EQ(bf16[n], encode_bf16(numbers[n])) << numbers[n];
  }
}

TEST(Format, ConstantsFollowFromPrecisionAndExponent) {
  for (const Format format : every) {
    EXPECT_EQ(unit_roundoff(format), std::ldexp(1.0, -precision(format)));
    EXPECT_EQ(smallest_normal(format), std::ldexp(1.0, min_exponent(format)));
    EXPECT_EQ(round_to(format, largest_finite(format)), largest_finite(format));
    EXPECT_EQ(round_to(format, smallest_normal(format)), smallest_normal(format));
    if (format == Format::f64) continue;
    EXPECT_EQ(half_smallest_subnormal(format), std::ldexp(1.0, min_exponent(format) - precision(format)));
    EXPECT_EQ(round_to(format, overflow_threshold(format)), INFINITY);
    EXPECT_EQ(round_to(format, std::nextafter(overflow_threshold(format), 0)), largest_finite(format));
    EXPECT_EQ(round_to(format, half_smallest_subnormal(format)), 0);
    EXPECT_EQ(round_to(format, std::nextafter(half_smallest_subnormal(format), 1)),
              2 * half_smallest_subnormal(format));
  }
}

TEST(Format, NamesRoundTrip) {
  for (const Format format : every) EXPECT_EQ(format_from_name(name(format)), format);
  EXPECT_FALSE(format_from_name("f8"));
}

}  // namespace
}  // namespace attest
