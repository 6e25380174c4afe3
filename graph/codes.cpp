#include "graph/codes.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "graph/zip.hpp"

namespace attest::graph {
namespace {

// Sign, exponent and mantissa side by side; an exponent of 0 has subnormal numbers.
struct Layout {
  int mantissa_bits, bias;
  std::int64_t largest;   // code of the largest number
  std::int64_t infinity;  // of what is past it: the code of infinity, or of NaN, or of the largest where there is none
  std::int64_t nan;
  int bits = 8;
  bool has_negative_zero = true;
};
constexpr Layout layouts[] = {
    {3, 7, 0x7e, 0x7f, 0x7f},             // e4m3fn
    {3, 8, 0x7f, 0x80, 0x80, 8, false},   // e4m3fnuz
    {2, 15, 0x7b, 0x7c, 0x7e},            // e5m2
    {2, 16, 0x7f, 0x80, 0x80, 8, false},  // e5m2fnuz
    {0, 127, 0xfe, 0xff, 0xff},           // e8m0: exponents alone, without sign and 0
    {1, 1, 0x7, 0x7, 0x8, 4},             // e2m1, without NaN: ml_dtypes makes it -0
};                                        // by Type

const Layout& layout_of(Type type) noexcept {
  return layouts[static_cast<int>(type) - static_cast<int>(Type::f8e4m3fn)];
}

std::int64_t exponent_code(double x, const Coding& how) noexcept {
  constexpr std::int64_t nan = 0xff;
  if (std::isnan(x) || x < 0) return nan;
  if (x == 0) return how.saturates ? 0 : nan;
  int exponent = 1024;
  if (std::isfinite(x)) {
    double half = std::frexp(x, &exponent);  // [0.5, 1)
    --exponent;
    if (how.round == Coding::Round::up && half > 0.5) ++exponent;
    if (how.round == Coding::Round::nearest && half >= 0.75) ++exponent;
  }
  const int code = exponent + layout_of(Type::f8e8m0).bias;
  if (code >= 0 && code < nan) return code;
  return how.saturates ? std::clamp<std::int64_t>(code, 0, nan - 1) : nan;
}

}  // namespace

double decoded(Type type, std::int64_t code) noexcept {
  const Layout& as = layout_of(type);
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  if (type == Type::f8e8m0) return code == as.nan ? nan : std::ldexp(1.0, static_cast<int>(code) - as.bias);
  const std::int64_t sign = std::int64_t{1} << (as.bits - 1), magnitude = code & (sign - 1);
  if (!as.has_negative_zero && code == as.nan) return nan;
  if (magnitude > as.largest)
    return magnitude == as.infinity && as.infinity != as.nan
               ? std::copysign(std::numeric_limits<double>::infinity(), code & sign ? -1 : 1)
               : nan;
  const auto exponent = static_cast<int>(magnitude >> as.mantissa_bits);
  const std::int64_t unit = std::int64_t{1} << as.mantissa_bits, mantissa = magnitude & (unit - 1);
  const double number = std::ldexp(static_cast<double>(exponent == 0 ? mantissa : unit + mantissa),
                                   std::max(exponent, 1) - as.bias - as.mantissa_bits);
  return (code & sign) != 0 ? -number : number;
}

Array decoded(const Array& codes) {
  Array out = zeros(Type::f32, codes.shape, codes.lanes);
  std::ranges::transform(codes.integers, out.floats.begin(),
                         [type = codes.type](std::int64_t code) { return decoded(type, code); });
  return out;
}

std::int64_t encoded(Type type, double x, const Coding& how) noexcept {
  if (type == Type::f8e8m0) return exponent_code(x, how);
  const Layout& as = layout_of(type);
  const std::int64_t sign = std::signbit(x) ? std::int64_t{1} << (as.bits - 1) : 0;
  if (std::isnan(x)) return as.nan | sign;
  const auto past = [&] { return how.saturates ? as.largest | sign : as.infinity | sign; };
  const double size = std::fabs(x);
  if (std::isinf(size)) return past();
  // In units of the last place, of which the least numbers have one in common.
  const int last = std::max(size == 0 ? 0 : std::ilogb(size), 1 - as.bias) - as.mantissa_bits;
  const double rounded = std::ldexp(nearest_whole(std::ldexp(size, -last)), last);
  if (rounded > decoded(type, as.largest)) return past();
  if (rounded == 0) return as.has_negative_zero ? sign : 0;
  const int exponent = std::max(std::ilogb(rounded), 1 - as.bias);
  const auto units = static_cast<std::int64_t>(std::ldexp(rounded, as.mantissa_bits - exponent));
  // A normal number has a leading unit, which counts one in the exponent's place.
  return (static_cast<std::int64_t>(exponent + as.bias - 1) << as.mantissa_bits) + units + sign;
}

}  // namespace attest::graph
