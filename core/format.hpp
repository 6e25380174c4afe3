#pragma once
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace attest {

// Floating-point formats. tf32 exists as an operand format only, never in memory.
enum class Format : std::uint8_t { f16, bf16, tf32, f32, f64 };
inline constexpr int format_count = 5;
// The names in the order of Format.
inline constexpr std::array<std::string_view, format_count> format_names{"f16", "bf16", "tf32", "f32", "f64"};

std::string_view name(Format format) noexcept;
// "f16, bf16".
std::string names_of(std::span<const Format> formats);
std::optional<Format> format_from_name(std::string_view text) noexcept;

// Significand bits including the implicit one, and the exponent of the smallest normal number.
constexpr int precision(Format format) noexcept {
  constexpr int bits[] = {11, 8, 11, 24, 53};
  return bits[static_cast<int>(format)];
}
constexpr int min_exponent(Format format) noexcept {
  constexpr int exponents[] = {-14, -126, -126, -126, -1022};
  return exponents[static_cast<int>(format)];
}

// u: half the distance from 1 to the next number; the largest relative error of rounding a normal number to nearest.
constexpr double unit_roundoff(Format format) noexcept {
  constexpr double u[] = {0x1p-11, 0x1p-8, 0x1p-11, 0x1p-24, 0x1p-53};
  return u[static_cast<int>(format)];
}
constexpr double smallest_normal(Format format) noexcept {
  constexpr double value[] = {0x1p-14, 0x1p-126, 0x1p-126, 0x1p-126, 0x1p-1022};
  return value[static_cast<int>(format)];
}
// eta: half the smallest subnormal (for f64 the whole one: half of it is no double), the largest absolute error of an
// underflow.
constexpr double half_smallest_subnormal(Format format) noexcept {
  constexpr double value[] = {0x1p-25, 0x1p-134, 0x1p-137, 0x1p-150, 0x1p-1074};
  return value[static_cast<int>(format)];
}
constexpr double largest_finite(Format format) noexcept {
  constexpr double value[] = {65504.0, 0x1.FEp127, 0x1.FFCp127, 0x1.FFFFFEp127, std::numeric_limits<double>::max()};
  return value[static_cast<int>(format)];
}
// Magnitudes from here on round to infinity (for f64: the largest double, which is as near as a double can say it).
constexpr double overflow_threshold(Format format) noexcept {
  constexpr double value[] = {65520.0, 0x1.FFp127, 0x1.FFEp127, 0x1.FFFFFFp127, std::numeric_limits<double>::max()};
  return value[static_cast<int>(format)];
}
constexpr bool narrower(Format a, Format b) noexcept { return precision(a) < precision(b); }

// Rounds to nearest, ties to even, once. Infinities and NaN stay; magnitudes past overflow_threshold become infinite.
// Always inlined: of a function that is not, the linker may keep the copy of a source that is compiled for its size.
[[gnu::always_inline]] inline double round_to(Format format, double x) noexcept {
  if (format == Format::f64) return x;
  if (format == Format::f32) return static_cast<double>(static_cast<float>(x));
  const double magnitude = std::fabs(x);
  if (!(magnitude < std::numeric_limits<double>::infinity()) || magnitude == 0) return x;
  if (magnitude >= overflow_threshold(format)) return std::copysign(std::numeric_limits<double>::infinity(), x);
  if (magnitude < smallest_normal(format)) {
    // Adding 1.5 * 2^52 units of the smallest subnormal leaves no bits below it.
    const double shifter = std::bit_cast<double>(
        (static_cast<std::uint64_t>(1023 + 52 + min_exponent(format) - precision(format) + 1) << 52) |
        (std::uint64_t{1} << 51));
    return std::copysign((magnitude + shifter) - shifter, x);
  }
  const int drop = 53 - precision(format);
  auto bits = std::bit_cast<std::uint64_t>(x);
  bits += ((std::uint64_t{1} << (drop - 1)) - 1) + ((bits >> drop) & 1);
  bits &= ~((std::uint64_t{1} << drop) - 1);
  return std::bit_cast<double>(bits);
}

// The same from float, for kernels that compute in float (one rounding, since float holds the exact argument).
[[gnu::always_inline]] inline float round_to(Format format, float x) noexcept {
  if (format == Format::f32 || format == Format::f64) return x;
  if (format == Format::f16) return static_cast<float>(round_to(format, static_cast<double>(x)));
  auto bits = std::bit_cast<std::uint32_t>(x);
  if ((bits & 0x7f800000u) == 0x7f800000u) return x;
  const int drop = 24 - precision(format);
  bits += ((1u << (drop - 1)) - 1) + ((bits >> drop) & 1u);
  return std::bit_cast<float>(bits & ~((1u << drop) - 1));
}

// Returns the bits of x in a format of 16 bits, without branches. Rounding is to nearest, ties to even, once; NaN stays
// NaN.
template <Format format>
[[gnu::always_inline]] inline std::uint16_t encoded(double x) noexcept {
  constexpr int drop = 53 - precision(format);  // bits of the significand that are cut off
  constexpr std::uint64_t bias = static_cast<std::uint64_t>(1023 + min_exponent(format) - 1) << (precision(format) - 1);
  // A number that, added to a subnormal, leaves in the last bits the count of its smallest units.
  constexpr double shifter =
      std::bit_cast<double>(static_cast<std::uint64_t>(1023 + 52 + min_exponent(format) - precision(format) + 1) << 52);
  constexpr std::uint64_t infinite = (std::uint64_t{0x7FFF} >> (precision(format) - 1)) << (precision(format) - 1),
                          quiet = infinite | std::uint64_t{1} << (precision(format) - 2);
  const std::uint64_t bits = std::bit_cast<std::uint64_t>(x), sign = bits >> 48 & 0x8000,
                      magnitude = bits & 0x7FFFFFFFFFFFFFFF;
  const double size = std::bit_cast<double>(magnitude);
  const std::uint64_t rounded =
      ((magnitude + ((std::uint64_t{1} << (drop - 1)) - 1) + (magnitude >> drop & 1)) >> drop) - bias;
  const std::uint64_t subnormal = std::bit_cast<std::uint64_t>(size + shifter) - std::bit_cast<std::uint64_t>(shifter);
  std::uint64_t number = size < smallest_normal(format) ? subnormal : rounded;
  number = size >= overflow_threshold(format) ? infinite : number;
  const std::uint64_t kept =
      format == Format::bf16 ? (magnitude >> drop) & (2 * (quiet - infinite) - 1) : 0;  // the payload of a NaN
  number = size != size ? quiet | kept : number;
  return static_cast<std::uint16_t>(sign | number);
}
inline std::uint16_t encode_f16(double x) noexcept { return encoded<Format::f16>(x); }
inline std::uint16_t encode_bf16(double x) noexcept { return encoded<Format::bf16>(x); }
double decode_f16(std::uint16_t bits) noexcept;
double decode_bf16(std::uint16_t bits) noexcept;

}  // namespace attest
