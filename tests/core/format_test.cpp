#include "core/format.hpp"

#include <gtest/gtest.h>

#include <algorithm>
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

// The same where no code is special.
double decode_fields(unsigned code, int exponent_bits, int fraction_bits, int bias) {
  const int exponent = static_cast<int>(code >> fraction_bits) & ((1 << exponent_bits) - 1);
  const int fraction = static_cast<int>(code) & ((1 << fraction_bits) - 1);
  const double sign = code >> (exponent_bits + fraction_bits) ? -1 : 1;
  return sign *
         std::ldexp((exponent == 0 ? 0 : 1 << fraction_bits) + fraction, std::max(exponent, 1) - bias - fraction_bits);
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
    // With the bits that a plug-in reads, NaN too.
    ASSERT_EQ(std::bit_cast<std::uint64_t>(decode_f16(pattern)),
              std::bit_cast<std::uint64_t>(static_cast<double>(attest_f16_load(pattern))));
    ASSERT_EQ(std::bit_cast<std::uint64_t>(decode_bf16(pattern)),
              std::bit_cast<std::uint64_t>(static_cast<double>(attest_bf16_load(pattern))));
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
  for (const Index stride : {1, 3})
    for (const DType type : {DType::f16, DType::bf16, DType::f32, DType::f64})
      with_element(type, [&](auto element) {
        std::vector<typename decltype(element)::Bits> bits(numbers.size() * static_cast<std::size_t>(stride));
        encode(type, numbers, reinterpret_cast<std::byte*>(bits.data()), stride);
        for (std::size_t n = 0; n < numbers.size(); ++n) {
          const auto one = element.encoded(numbers[n]);
          ASSERT_EQ(std::memcmp(&bits[n * static_cast<std::size_t>(stride)], &one, sizeof one), 0) << numbers[n];
        }
      });
}

TEST(Format, ConstantsAreThoseOfTheTypes) {
  EXPECT_EQ(largest_finite(Format::f16), 65504);
  EXPECT_EQ(overflow_threshold(Format::f16), 65520);
  EXPECT_EQ(largest_finite(Format::bf16), 0x1.FEp127);
  EXPECT_EQ(overflow_threshold(Format::bf16), 0x1.FFp127);
  EXPECT_EQ(largest_finite(Format::tf32), 0x1.FFCp127);
  EXPECT_EQ(largest_finite(Format::f32), static_cast<double>(std::numeric_limits<float>::max()));
  EXPECT_EQ(half_smallest_subnormal(Format::f32), static_cast<double>(std::numeric_limits<float>::denorm_min()) / 2);
  EXPECT_EQ(largest_finite(Format::f64), std::numeric_limits<double>::max());
  EXPECT_EQ(half_smallest_subnormal(Format::f64), std::numeric_limits<double>::denorm_min());
  EXPECT_EQ(max_exponent(Format::f64), 1023);
  EXPECT_EQ(choice_of(finest_first), "f64, f32, tf32, f16 or bf16");
  EXPECT_EQ(stored_format_names(), "f16, bf16, f32 or f64");
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

// Formats that are none of ours yet, each with codes that others have not.
struct Narrow {
  FormatTraits row;
  double largest, tie;  // the largest number, and half a unit more
  bool tie_stays;
};
const Narrow rows_of_8_bits[] = {
    {{"e4m3", "float8_e4m3fn", 10, 8, 4, -6, Specials::one_nan}, 448, 464, true},
    {{"e4m3fnuz", "float8_e4m3fnuz", 11, 8, 4, -7, Specials::negative_zero}, 240, 248, false},
    {{"e5m2", "float8_e5m2", 12, 8, 3, -14}, 57344, 61440, false},
    {{"e2m1", "float4_e2m1fn", 17, 4, 2, 0, Specials::none}, 6, 7, false},
};

// The number of a code by the tables of OCP's "8-bit Floating Point Specification" and "Microscaling Formats", and of ONNX.
double decode_by_tables(std::string_view name, unsigned code) {
  if (name == "e4m3") return (code & 0x7f) == 0x7f ? NAN : decode_fields(code, 4, 3, 7);
  if (name == "e4m3fnuz") return code == 0x80 ? NAN : decode_fields(code, 4, 3, 8);
  if (name == "e2m1") return decode_fields(code, 2, 1, 1);
  if ((code & 0x7c) == 0x7c) return (code & 3) != 0 ? NAN : code >> 7 ? -INFINITY : INFINITY;
  return decode_fields(code, 5, 2, 15);
}

TEST(Format, ARowSaysAllOfANarrowFormat) {
  for (const auto& [row, largest, tie, tie_stays] : rows_of_8_bits) {
    SCOPED_TRACE(row.name);
    const unsigned codes = 1u << row.bits;
    std::vector<double> numbers;
    for (unsigned code = 0; code < codes; ++code) {
      const double number = decode_by_tables(row.name, code), got = decoded(row, code);
      ASSERT_TRUE(same(got, number)) << code << ' ' << got;
      if (!std::isnan(number)) ASSERT_EQ(encoded(row, number), code);
      if (std::isfinite(number)) numbers.push_back(number);
    }
    std::ranges::sort(numbers);
    EXPECT_EQ(row.largest_finite, largest);
    EXPECT_EQ(numbers.back(), largest);
    // Every midpoint between neighbours, and the doubles next to it.
    for (std::size_t n = 0; n + 1 < numbers.size(); ++n) {
      const double low = numbers[n], high = numbers[n + 1], middle = (low + high) / 2;
      if (low == high) continue;
      EXPECT_EQ(round_to(row, std::nextafter(middle, -INFINITY)), low);
      EXPECT_EQ(round_to(row, std::nextafter(middle, INFINITY)), high);
      const double even = encoded(row, low) % 2 == 0 ? low : high;
      EXPECT_EQ(round_to(row, middle), even) << middle;
      for (const double x : {std::nextafter(middle, -INFINITY), middle, std::nextafter(middle, INFINITY)})
        EXPECT_EQ(decoded(row, encoded(row, x)), round_to(row, x)) << x;
    }
    for (const double sign : {1.0, -1.0}) {
      const double past = row.name == "e5m2" ? INFINITY : row.name == "e2m1" ? largest : NAN;
      EXPECT_EQ(round_to(row, sign * std::nextafter(tie, 0)), sign * largest);
      EXPECT_TRUE(same(round_to(row, sign * tie), sign * (tie_stays ? largest : past)));
      for (const double x : {std::nextafter(tie, INFINITY), 1e300, static_cast<double>(INFINITY)}) {
        EXPECT_TRUE(same(round_to(row, sign * x), sign * past)) << x;
        EXPECT_TRUE(same(decoded(row, encoded(row, sign * x)), sign * past)) << x;
        EXPECT_EQ(decoded(row, encoded(row, saturated(row, sign * x))), sign * largest) << x;
      }
    }
    EXPECT_TRUE(std::isnan(saturated(row, NAN)));
    EXPECT_EQ(std::isnan(decoded(row, encoded(row, NAN))), row.specials != Specials::none);
  }
}

TEST(Format, NamesRoundTrip) {
  for (const Format format : every) EXPECT_EQ(format_from_name(name(format)), format);
  EXPECT_FALSE(format_from_name("f8"));
}

}  // namespace
}  // namespace attest
