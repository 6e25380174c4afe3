#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace attest {

// The codes of a format that stand for no finite number.
enum class Specials : std::uint8_t {
  ieee,     // infinities and NaN have the largest exponent (IEEE 754-2019, section 3.4)
  one_nan,  // no infinity; NaN has every bit set but the sign ("fn": OCP 8-bit floating point, revision 1.0, table 1)
  negative_zero,  // no infinity and one zero: the code of -0 is NaN ("fnuz" of ONNX)
  none            // every code is a number
};

constexpr double two_to_the(int exponent) noexcept {  // -1074 to 1023
  return std::bit_cast<double>(exponent >= -1022 ? static_cast<std::uint64_t>(exponent + 1023) << 52
                                                 : std::uint64_t{1} << (exponent + 1074));
}

// A floating-point format as a row: the arguments of the constructor, from which all the rest follows. A code has a
// sign, bits - precision bits of exponent, and precision - 1 of significand, which has an implicit one.
struct FormatTraits {
  std::string_view name;     // in problems, policies and files
  std::string_view library;  // in NumPy (with ml_dtypes) and PyTorch; empty for a format of operands alone
  int dlpack;                // attest_dtype.code
  int bits, precision, min_exponent;
  Specials specials;
  bool keeps_payload;  // conversions cut the significand of a NaN off; else they give nan_code

  double unit_roundoff, smallest_normal, half_smallest_subnormal, largest_finite, overflow_threshold;
  double past;  // the result of a magnitude from overflow_threshold on
  std::uint64_t sign, largest_code, past_code, nan_code;

  constexpr FormatTraits(std::string_view its_name, std::string_view library_name, int dlpack_code, int width,
                         int significand, int smallest_exponent, Specials its_specials = Specials::ieee,
                         bool payload = false) noexcept
      : name(its_name),
        library(library_name),
        dlpack(dlpack_code),
        bits(width),
        precision(significand),
        min_exponent(smallest_exponent),
        specials(its_specials),
        keeps_payload(payload),
        unit_roundoff(two_to_the(-significand)),
        smallest_normal(two_to_the(smallest_exponent)),
        half_smallest_subnormal(two_to_the(std::max(smallest_exponent - significand, -1074))),
        sign(std::uint64_t{1} << (width - 1)) {
    const std::uint64_t infinite = sign - (std::uint64_t{1} << (significand - 1));  // the largest exponent alone
    const bool ieee = specials == Specials::ieee, one_nan = specials == Specials::one_nan;
    largest_code = ieee ? infinite - 1 : one_nan ? sign - 2 : sign - 1;
    nan_code = ieee ? infinite + (std::uint64_t{1} << (significand - 2)) : one_nan ? sign - 1 : sign;
    past_code = ieee ? infinite : specials == Specials::none ? largest_code : nan_code;
    largest_finite = normal(largest_code);
    past = ieee                         ? std::numeric_limits<double>::infinity()
           : specials == Specials::none ? largest_finite
                                        : std::numeric_limits<double>::quiet_NaN();
    // Half a unit more than the largest number: a tie, which an odd code gives up, and an even one keeps.
    const auto largest_bits = std::bit_cast<std::uint64_t>(largest_finite);
    overflow_threshold = significand == 53
                             ? largest_finite
                             : std::bit_cast<double>(largest_bits + (std::uint64_t{1} << (52 - significand)) +
                                                     (largest_code & 1 ? 0 : 1));
  }

  [[nodiscard, gnu::always_inline]] constexpr bool in_memory() const noexcept { return bits % 8 == 0; }
  // Tells whether NumPy has the type without ml_dtypes.
  [[nodiscard, gnu::always_inline]] constexpr bool in_numpy() const noexcept { return dlpack == 2; }
  [[nodiscard, gnu::always_inline]] constexpr bool has_infinity() const noexcept { return specials == Specials::ieee; }
  // Tells whether codes are the first bits of f32's.
  [[nodiscard, gnu::always_inline]] constexpr bool begins_f32() const noexcept {
    return has_infinity() && min_exponent == -126 && bits - precision == 8;
  }
  // The exponent of the largest number.
  [[nodiscard, gnu::always_inline]] constexpr int max_exponent() const noexcept {
    return static_cast<int>(std::bit_cast<std::uint64_t>(largest_finite) >> 52) - 1023;
  }
  // The number of a code without sign whose exponent's bits are not all 0.
  [[nodiscard, gnu::always_inline]] constexpr double normal(std::uint64_t magnitude) const noexcept {
    return std::bit_cast<double>((magnitude << (53 - precision)) +
                                 (static_cast<std::uint64_t>(1023 + min_exponent - 1) << 52));
  }
};

// Floating-point formats. tf32 exists as an operand format only, never in memory.
enum class Format : std::uint8_t { f16, bf16, tf32, f32, f64 };
// In the order of Format.
inline constexpr auto formats = std::to_array<FormatTraits>({
    {"f16", "float16", 2, 16, 11, -14},
    {"bf16", "bfloat16", 4, 16, 8, -126, Specials::ieee, true},
    {"tf32", "", 2, 19, 11, -126},
    {"f32", "float32", 2, 32, 24, -126},
    {"f64", "float64", 2, 64, 53, -1022},
});
inline constexpr int format_count = static_cast<int>(formats.size());
inline constexpr auto format_names = [] {
  std::array<std::string_view, formats.size()> names;
  std::ranges::transform(formats, names.begin(), &FormatTraits::name);
  return names;
}();
inline constexpr auto every_format = [] {
  std::array<Format, formats.size()> all{};
  for (std::size_t n = 0; n < all.size(); ++n) all[n] = static_cast<Format>(n);
  return all;
}();
// Formats that lie in memory: DType, NamedArray::Type and graph::Type begin with them, in this order.
inline constexpr std::array stored_formats{Format::f16, Format::bf16, Format::f32, Format::f64};
// Sorts formats where an order matters: the finest first, of two as fine the one that reaches further.
constexpr auto sorted_finest_first(auto some) noexcept {
  std::ranges::sort(some, [](Format a, Format b) {
    const FormatTraits &x = formats[static_cast<std::size_t>(a)], &y = formats[static_cast<std::size_t>(b)];
    return x.precision != y.precision ? x.precision > y.precision : x.max_exponent() > y.max_exponent();
  });
  return some;
}
inline constexpr auto finest_first = sorted_finest_first(every_format);
inline constexpr auto stored_finest_first = sorted_finest_first(stored_formats);
inline constexpr auto below_f64 = std::span(stored_finest_first).subspan<1>();

[[gnu::always_inline]] constexpr const FormatTraits& traits(Format format) noexcept {
  return formats[static_cast<std::size_t>(format)];
}
constexpr std::string_view name(Format format) noexcept { return traits(format).name; }
// "f16, bf16".
std::string names_of(std::span<const Format> formats);
// "f16, bf16, f32 or f64".
std::string choice_of(std::span<const Format> formats);
inline std::string stored_format_names() { return choice_of(stored_formats); }
std::optional<Format> format_from_name(std::string_view text) noexcept;

// Significand bits including the implicit one, and the exponents of the smallest normal and the largest number.
constexpr int precision(Format format) noexcept { return traits(format).precision; }
constexpr int min_exponent(Format format) noexcept { return traits(format).min_exponent; }
constexpr int max_exponent(Format format) noexcept { return traits(format).max_exponent(); }
// u: half the distance from 1 to the next number; the largest relative error of rounding a normal number to nearest.
constexpr double unit_roundoff(Format format) noexcept { return traits(format).unit_roundoff; }
constexpr double smallest_normal(Format format) noexcept { return traits(format).smallest_normal; }
// eta: half the smallest subnormal (for f64 the whole one: half of it is no double), the largest absolute error of an
// underflow.
constexpr double half_smallest_subnormal(Format format) noexcept { return traits(format).half_smallest_subnormal; }
constexpr double largest_finite(Format format) noexcept { return traits(format).largest_finite; }
// Magnitudes from here on round to what lies past the largest number, such as infinity (for f64: the largest double,
// which is as near as a double can say it).
constexpr double overflow_threshold(Format format) noexcept { return traits(format).overflow_threshold; }
constexpr bool narrower(Format a, Format b) noexcept { return precision(a) < precision(b); }
// Tells whether a format lies in memory in less than 32 bits.
constexpr bool is_short(Format format) noexcept { return traits(format).in_memory() && traits(format).bits < 32; }
// Tells whether the exponents of a format reach less far than f32's.
constexpr bool has_short_range(Format format) noexcept { return max_exponent(format) < max_exponent(Format::f32); }
// f32, or the format where that is finer.
constexpr Format at_least_f32(Format format) noexcept { return narrower(format, Format::f32) ? Format::f32 : format; }

// Returns visit(std::integral_constant<Format, format>{}).
template <std::size_t from = 0, class Visit>
[[gnu::always_inline]] inline decltype(auto) with_format(Format format, Visit&& visit) {
  constexpr auto here = static_cast<Format>(from);
  if constexpr (from + 1 == formats.size()) {
    return visit(std::integral_constant<Format, here>{});
  } else {
    if (format == here) return visit(std::integral_constant<Format, here>{});
    return with_format<from + 1>(format, std::forward<Visit>(visit));
  }
}

// Rounds to nearest, ties to even, once. NaN stays; magnitudes from overflow_threshold on become `past`.
// Always inlined: of a function that is not, the linker may keep the copy of a source that is compiled for its size.
[[gnu::always_inline]] inline double round_to(const FormatTraits& format, double x) noexcept {
  const double magnitude = std::fabs(x);
  if (!(magnitude > 0)) return x;
  if (magnitude >= format.overflow_threshold) return std::copysign(format.past, x);
  if (magnitude < format.smallest_normal) {
    // Adding 1.5 * 2^52 units of the smallest subnormal leaves no bits below it.
    const double shifter = std::bit_cast<double>(
        (static_cast<std::uint64_t>(1023 + 52 + format.min_exponent - format.precision + 1) << 52) |
        (std::uint64_t{1} << 51));
    return std::copysign((magnitude + shifter) - shifter, x);
  }
  const int drop = 53 - format.precision;
  auto bits = std::bit_cast<std::uint64_t>(x);
  bits += ((std::uint64_t{1} << (drop - 1)) - 1) + ((bits >> drop) & 1);
  bits &= ~((std::uint64_t{1} << drop) - 1);
  return std::bit_cast<double>(bits);
}
[[gnu::always_inline]] inline double round_to(Format format, double x) noexcept {
  if (format == Format::f64) return x;
  if (format == Format::f32) return static_cast<double>(static_cast<float>(x));
  return round_to(traits(format), x);
}

// The same from float, for kernels that compute in float (one rounding, since float holds the exact argument).
[[gnu::always_inline]] inline float round_to(Format format, float x) noexcept {
  if (!narrower(format, Format::f32)) return x;
  if (min_exponent(format) != min_exponent(Format::f32))
    return static_cast<float>(round_to(traits(format), static_cast<double>(x)));
  auto bits = std::bit_cast<std::uint32_t>(x);
  if ((bits & 0x7f800000u) == 0x7f800000u) return x;
  const int drop = 24 - precision(format);
  bits += ((1u << (drop - 1)) - 1) + ((bits >> drop) & 1u);
  return std::bit_cast<float>(bits & ~((1u << drop) - 1));
}

// Returns the code of x in a format of less than 53 bits, without branches where the format is known. Rounding is to
// nearest, ties to even, once; NaN stays NaN.
[[gnu::always_inline]] inline std::uint64_t encoded(const FormatTraits& format, double x) noexcept {
  const int drop = 53 - format.precision;  // bits of the significand that are cut off
  const std::uint64_t bias = static_cast<std::uint64_t>(1023 + format.min_exponent - 1) << (format.precision - 1);
  // A number that, added to a subnormal, leaves in the last bits the count of its smallest units.
  const double shifter = two_to_the(52 + format.min_exponent - format.precision + 1);
  const std::uint64_t bits = std::bit_cast<std::uint64_t>(x), sign = bits >> (64 - format.bits) & format.sign,
                      magnitude = bits & 0x7FFFFFFFFFFFFFFF;
  const double size = std::bit_cast<double>(magnitude);
  const std::uint64_t rounded =
      ((magnitude + ((std::uint64_t{1} << (drop - 1)) - 1) + (magnitude >> drop & 1)) >> drop) - bias;
  const std::uint64_t subnormal = std::bit_cast<std::uint64_t>(size + shifter) - std::bit_cast<std::uint64_t>(shifter);
  std::uint64_t number = size < format.smallest_normal ? subnormal : rounded;
  number = size >= format.overflow_threshold ? format.past_code : number;
  const std::uint64_t payload =
      format.keeps_payload ? (magnitude >> drop) & ((std::uint64_t{1} << (format.precision - 1)) - 1) : 0;
  number = size != size ? format.nan_code | payload : number;
  return format.specials == Specials::negative_zero && number == 0 ? 0 : sign | number;
}
// The largest number in place of those past it. NaN stays.
inline double saturated(const FormatTraits& format, double x) noexcept {
  return std::fabs(x) > format.largest_finite ? std::copysign(format.largest_finite, x) : x;
}

// Returns the number of a code of less than 53 bits, exactly and without branches where the format is known; NaN is quiet.
[[gnu::always_inline]] inline double decoded(const FormatTraits& format, std::uint64_t code) noexcept {
  if (format.begins_f32())
    return static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(code << (32 - format.bits))));
  const std::uint64_t magnitude = code & (format.sign - 1), sign = (code & format.sign) << (64 - format.bits);
  constexpr std::uint64_t one = std::uint64_t{1} << 52, infinite = std::uint64_t{0x7FF} << 52, quiet = one >> 1;
  const std::uint64_t significand = magnitude << (53 - format.precision);
  const std::uint64_t normal = std::bit_cast<std::uint64_t>(format.normal(magnitude));
  // A subnormal is what it adds to the smallest normal.
  const auto subnormal = std::bit_cast<std::uint64_t>(std::bit_cast<double>(normal + one) - format.smallest_normal);
  const bool is_nan = format.has_infinity() ? magnitude > format.past_code : magnitude > format.largest_code;
  std::uint64_t size = significand < one ? subnormal : normal;
  size = magnitude > format.largest_code ? significand | infinite : size;
  size |= is_nan ? quiet : 0;
  if (format.specials == Specials::negative_zero && code == format.nan_code) size = infinite | quiet;
  return std::bit_cast<double>(size | sign);
}

template <Format format>
[[gnu::always_inline]] inline std::uint16_t encoded(double x) noexcept {
  return static_cast<std::uint16_t>(encoded(traits(format), x));
}
inline std::uint16_t encode_f16(double x) noexcept { return encoded<Format::f16>(x); }
inline std::uint16_t encode_bf16(double x) noexcept { return encoded<Format::bf16>(x); }
inline double decode_f16(std::uint16_t bits) noexcept { return decoded(traits(Format::f16), bits); }
inline double decode_bf16(std::uint16_t bits) noexcept { return decoded(traits(Format::bf16), bits); }

}  // namespace attest
