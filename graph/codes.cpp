#include "graph/codes.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/format.hpp"

namespace attest::graph {
namespace {

constexpr FormatTraits code_formats[] = {
    {"", "float8_e4m3fn", 10, 8, 4, -6, Specials::one_nan},
    {"", "float8_e4m3fnuz", 11, 8, 4, -7, Specials::negative_zero},
    {"", "float8_e5m2", 12, 8, 3, -14},
    {"", "float8_e5m2fnuz", 13, 8, 3, -15, Specials::negative_zero},
    {"", "float4_e2m1fn", 17, 4, 2, 0, Specials::none},
};

// float8e8m0 has exponents alone, without sign and 0.
constexpr int exponent_bias = 127;
constexpr std::int64_t exponent_nan = 0xff;

const FormatTraits& format_of_codes(Type type) noexcept {
  constexpr Type order[] = {Type::f8e4m3fn, Type::f8e4m3fnuz, Type::f8e5m2, Type::f8e5m2fnuz, Type::f4e2m1};
  return code_formats[std::ranges::find(order, type) - order];
}

std::int64_t exponent_code(double x, const Coding& how) noexcept {
  if (std::isnan(x) || x < 0) return exponent_nan;
  if (x == 0) return how.saturates ? 0 : exponent_nan;
  int exponent = 1024;
  if (std::isfinite(x)) {
    double half = std::frexp(x, &exponent);  // [0.5, 1)
    --exponent;
    if (how.round == Coding::Round::up && half > 0.5) ++exponent;
    if (how.round == Coding::Round::nearest && half >= 0.75) ++exponent;
  }
  const int code = exponent + exponent_bias;
  if (code >= 0 && code < exponent_nan) return code;
  return how.saturates ? std::clamp<std::int64_t>(code, 0, exponent_nan - 1) : exponent_nan;
}

}  // namespace

double decoded(Type type, std::int64_t code) noexcept {
  if (type != Type::f8e8m0) return decoded(format_of_codes(type), static_cast<std::uint64_t>(code));
  return code == exponent_nan ? std::numeric_limits<double>::quiet_NaN()
                              : std::ldexp(1.0, static_cast<int>(code) - exponent_bias);
}

Array decoded(const Array& codes) {
  Array out = zeros(Type::f32, codes.shape, codes.lanes);
  std::ranges::transform(codes.integers, out.floats.begin(),
                         [type = codes.type](std::int64_t code) { return decoded(type, code); });
  return out;
}

std::int64_t encoded(Type type, double x, const Coding& how) noexcept {
  if (type == Type::f8e8m0) return exponent_code(x, how);
  const FormatTraits& format = format_of_codes(type);
  return static_cast<std::int64_t>(encoded(format, how.saturates ? saturated(format, x) : x));
}

}  // namespace attest::graph
