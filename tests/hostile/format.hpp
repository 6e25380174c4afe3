// Number formats of the hostile kernel, and rounding to them: nothing here is shared with what it is meant to try.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <string_view>

namespace hostile {

struct Format {
  std::string_view name;
  int precision;   // bits of the significand, the leading one included
  int least;       // exponent of the smallest normal number
  double largest;  // largest finite number
  double normal;   // smallest normal number
  double spacing;  // smallest subnormal number
};

inline constexpr Format formats[] = {{"f16", 11, -14, 0x1.ffcp15, 0x1p-14, 0x1p-24},
                                     {"bf16", 8, -126, 0x1.fep127, 0x1p-126, 0x1p-133},
                                     {"tf32", 11, -126, 0x1.ffcp127, 0x1p-126, 0x1p-136},
                                     {"f32", 24, -126, 0x1.fffffep127, 0x1p-126, 0x1p-149},
                                     {"f64", 53, -1022, 0x1.fffffffffffffp1023, 0x1p-1022, 0x1p-1074}};

inline bool is_f64(const Format& format) { return format.precision == 53; }

inline constexpr std::uint64_t sign_bit = std::uint64_t{1} << 63;

/// x in the nearest number of the format, ties to even; past the largest one by half a step or more, infinity.
inline double nearest(double x, const Format& format) {
  if (format.precision == 53) return x;
  if (format.precision == 24) return static_cast<double>(static_cast<float>(x));
  const auto bits = std::bit_cast<std::uint64_t>(x);
  const std::uint64_t magnitude = bits & ~sign_bit;
  const double size = std::bit_cast<double>(magnitude);
  if (!(size < 0x1p200)) return size > 0 ? std::copysign(INFINITY, x) : x;
  // Adding a number whose last place is the format's step rounds to that step; taking it away again is exact.
  const auto exponent = static_cast<std::int64_t>(magnitude >> 52);
  const std::int64_t binade = exponent > format.least + 1023 ? exponent : format.least + 1023;
  const auto magic = std::bit_cast<double>(static_cast<std::uint64_t>(binade + 53 - format.precision) << 52);
  double rounded = (size + magic) - magic;
  if (rounded > format.largest) rounded = INFINITY;
  return std::copysign(rounded, x);
}

/// The distance of neighbours in the binade of x, or among subnormals.
inline double step(double x, const Format& format) {
  const double size = std::fabs(x);
  if (size < format.normal) return format.spacing;
  return std::ldexp(1.0, std::ilogb(size) - format.precision + 1);
}

/// The number of the format next to x on the side of zero, or x itself; infinity where rounding to nearest gives that,
/// as accumulators that truncate have it.
inline double toward_zero(double x, const Format& format) {
  double rounded = nearest(x, format);
  if (std::isfinite(rounded) && std::fabs(rounded) > std::fabs(x)) {
    // A rounded number that is a power of two has the smaller steps below it.
    const double below = std::fabs(rounded) - step(std::fabs(x), format);
    rounded = std::copysign(below, x);
  }
  return rounded;
}

/// A double that rounds to every format of at most 51 bits as value + rest does, |rest| less than a step of value:
/// rounding to odd (Boldo, Melquiond, IEEE Transactions on Computers 57, 2008).
inline double to_odd(double value, double rest) {
  if (!(rest != 0) || !std::isfinite(value)) return value;
  const auto bits = std::bit_cast<std::uint64_t>(value);
  if (bits & 1) return value;
  return std::bit_cast<double>((rest > 0) == (value > 0) ? bits + 1 : bits - 1);
}

/// The part of the exact sum that a + b leaves out (Knuth's TwoSum).
inline double rest_of_sum(double a, double b, double sum) {
  const double part = sum - a;
  return (a - (sum - part)) + (b - part);
}

inline double add(double a, double b, const Format& format) {
  const double sum = a + b;
  return is_f64(format) ? sum : nearest(to_odd(sum, rest_of_sum(a, b, sum)), format);
}

inline double multiply(double a, double b, const Format& format) {
  const double product = a * b;
  return is_f64(format) ? product : nearest(to_odd(product, std::fma(a, b, -product)), format);
}

/// a b + c, rounded once; a b must be exact in double unless the format is f64.
inline double fused(double a, double b, double c, const Format& format) {
  return is_f64(format) ? std::fma(a, b, c) : add(a * b, c, format);
}

/// a / b, rounded once.
inline double exact_quotient(double a, double b, const Format& format) {
  const double quotient = a / b;
  if (is_f64(format) || !std::isfinite(quotient)) return nearest(quotient, format);
  const double rest = std::fma(-quotient, b, a);
  return nearest(to_odd(quotient, b > 0 ? rest : -rest), format);
}

inline double flushed(double x, const Format& format) {
  return std::fabs(x) < format.normal ? std::copysign(0.0, x) : x;
}

/// The farthest that a function may be off: the last number of the format not beyond exact + side * ulps * ulp(exact).
/// Fewer than half an ulp, or no side, is the nearest number.
double at_edge(long double exact, double ulps, int side, const Format& format);

/// exact + side * relative * |exact|, then rounded to nearest.
inline double off_before_rounding(long double exact, double relative, int side, const Format& format) {
  const auto off = static_cast<double>(exact * (1 + static_cast<long double>(side) * relative * (1 - 0x1p-40L)));
  return nearest(off, format);
}

}  // namespace hostile
