#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "graph/operators.hpp"
#include "graph/zip.hpp"

namespace attest::graph {
namespace {

template <class Floats, class Integers>
void arithmetic(Step& step, Floats f, Integers g) {
  const Array &a = step.in(0), &b = step.in(1);
  same_types(step, a, b);
  if (a.type == Type::boolean) step.refuse("booleans have no arithmetic");
  const Type type = a.type;
  Array out = is_floating(type) ? zip_floats(step, a, b, f)
                                : zip_integers(step, a, b, type, [type, g](std::int64_t x, std::int64_t y) {
                                    return wrapped(type, g(x, y));
                                  });
  step.round(out);
  step.outputs.push_back(std::move(out));
}

// A function that is good to some units of roundoff.
template <class F>
void elementary(Step& step, F f, double relative, double absolute = 0) {
  floats_alone(step, step.in(0));
  Array out = map_floats(step, step.in(0), f);
  step.function(out, relative, absolute);
  step.round(out);
  step.outputs.push_back(std::move(out));
}

// 0.5 x (1 + t), each part stored.
Array half_of_one_plus(Step& step, Array t) {
  for (double& v : t.floats) v = 1 + v;
  step.round(t);
  for (double& v : t.floats) v *= 0.5;
  step.round(t);
  return t;
}

}  // namespace

void add(Step& step) {
  arithmetic(
      step, [](double x, double y) { return x + y; },
      [](std::int64_t x, std::int64_t y) { return bits_of(x) + bits_of(y); });
}

namespace {

// One after the other, each sum stored.
Array sum_of_inputs(Step& step) {
  Array sum = step.in(0);
  floats_alone(step, sum);
  for (std::size_t i = 1; i < step.input_count(); ++i) {
    same_types(step, sum, step.in(i));
    sum = zip_floats(step, sum, step.in(i), [](double x, double y) { return x + y; });
    step.round(sum);
  }
  return sum;
}

}  // namespace

void sum_of_all(Step& step) { step.outputs.push_back(sum_of_inputs(step)); }

void mean_of_all(Step& step) {
  Array mean = sum_of_inputs(step);
  for (double& v : mean.floats) v /= static_cast<double>(step.input_count());
  step.function(mean, 1);
  step.round(mean);
  step.outputs.push_back(std::move(mean));
}

void subtract(Step& step) {
  arithmetic(
      step, [](double x, double y) { return x - y; },
      [](std::int64_t x, std::int64_t y) { return bits_of(x) - bits_of(y); });
}

void multiply(Step& step) {
  arithmetic(
      step, [](double x, double y) { return x * y; },
      [](std::int64_t x, std::int64_t y) { return bits_of(x) * bits_of(y); });
}

void divide(Step& step) {
  const Array &a = step.in(0), &b = step.in(1);
  same_types(step, a, b);
  if (is_floating(a.type)) {
    Array out = zip_floats(step, a, b, [](double x, double y) { return x / y; });
    step.function(out, 1);
    step.round(out);
    step.outputs.push_back(std::move(out));
    return;
  }
  if (std::find(b.integers.begin(), b.integers.end(), 0) != b.integers.end()) step.refuse("an integer is divided by 0");
  // Truncates. The one quotient that does not fit wraps round.
  arithmetic(
      step, [](double x, double /*y*/) { return x; },
      [](std::int64_t x, std::int64_t y) { return y == -1 ? 0 - bits_of(x) : bits_of(x / y); });
}

void modulo(Step& step) {
  const Array& b = step.in(1);
  same_types(step, step.in(0), b);
  if (std::find(b.integers.begin(), b.integers.end(), 0) != b.integers.end()) step.refuse("an integer is divided by 0");
  // The sign of the divisor; with fmod that of what is divided.
  const bool truncates = step.integer("fmod", 0) != 0;
  arithmetic(
      step,
      [truncates](double x, double y) {
        const double rest = std::fmod(x, y);
        if (truncates || std::isnan(rest)) return rest;
        if (rest == 0) return std::copysign(rest, y);
        return (rest < 0) != (y < 0) ? rest + y : rest;
      },
      [truncates](std::int64_t x, std::int64_t y) {
        const std::int64_t rest = y == -1 ? 0 : x % y;
        return bits_of(!truncates && rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest);
      });
}

namespace {

// An integer to a whole power, modulo 2^64; a reciprocal is truncated.
std::uint64_t whole_power(std::int64_t base, std::int64_t exponent) {
  if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent % 2 == 0 ? 1 : bits_of(-1)) : 0;
  std::uint64_t power = 1;
  for (std::uint64_t square = bits_of(base); exponent > 0; exponent /= 2, square *= square)
    if (exponent % 2 != 0) power *= square;
  return power;
}

void integer_power(Step& step) {
  Array exponents = step.in(1);
  if (is_floating(exponents.type)) {
    exponents = zeros(Type::i64, exponents.shape, exponents.lanes);
    std::transform(step.in(1).floats.begin(), step.in(1).floats.end(), exponents.integers.begin(), [&step](double x) {
      if (!(std::fabs(x) < 0x1p62) || x != std::trunc(x)) step.refuse("an integer to a power that is no whole number");
      return static_cast<std::int64_t>(x);
    });
  }
  const Type type = step.in(0).type;
  step.outputs.push_back(zip_integers(step, step.in(0), exponents, type, [type](std::int64_t x, std::int64_t y) {
    return wrapped(type, whole_power(x, y));
  }));
}

}  // namespace

void power(Step& step) {
  const Array &a = step.in(0), &b = step.in(1);
  if (!is_floating(a.type)) {
    integer_power(step);
    return;
  }
  Array room;
  const Array* exponents = &b;
  if (!is_floating(b.type)) {
    room = step.make(a.type, b.shape, b.lanes);
    std::transform(b.integers.begin(), b.integers.end(), room.floats.begin(),
                   [](std::int64_t x) { return static_cast<double>(x); });
    exponents = &room;
  }
  Array out = zip_floats(step, a, *exponents, [](double x, double y) { return y == 2 ? x * x : std::pow(x, y); });
  const bool squares = std::all_of(exponents->floats.begin(), exponents->floats.end(), [](double y) { return y == 2; });
  step.function(out, squares ? 1 : 4);
  step.round(out);
  step.outputs.push_back(std::move(out));
}

void cosine(Step& step) {
  elementary(
      step, [](double x) { return std::cos(x); }, 2, 1);
}
void sine(Step& step) {
  elementary(
      step, [](double x) { return std::sin(x); }, 2, 1);
}
void square_root(Step& step) {
  elementary(
      step, [](double x) { return std::sqrt(x); }, 1);
}
void reciprocal(Step& step) {
  elementary(
      step, [](double x) { return 1 / x; }, 1);
}
void exponential(Step& step) {
  elementary(
      step, [](double x) { return std::exp(x); }, 2);
}
void logarithm(Step& step) {
  elementary(
      step, [](double x) { return std::log(x); }, 2);
}
void error_function(Step& step) {
  elementary(
      step, [](double x) { return std::erf(x); }, 4, 2);
}
void hyperbolic_tangent(Step& step) {
  elementary(
      step, [](double x) { return std::tanh(x); }, 4, 2);
}
void sigmoid(Step& step) {
  elementary(
      step, [](double x) { return 1 / (1 + std::exp(-x)); }, 4, 2);  // 1/2 + tanh(x/2)/2, whose tanh is good to 4 units
}

void negate(Step& step) {
  Array out = step.in(0);
  for (double& v : out.floats) v = -v;
  for (std::int64_t& v : out.integers) v = wrapped(out.type, 0 - bits_of(v));
  step.outputs.push_back(std::move(out));
}

void absolute(Step& step) {
  Array out = step.in(0);
  for (double& v : out.floats) v = std::fabs(v);
  for (std::int64_t& v : out.integers) v = v < 0 ? wrapped(out.type, 0 - bits_of(v)) : v;
  step.outputs.push_back(std::move(out));
}

void relu(Step& step) {
  Array out = step.in(0);
  for (double& v : out.floats) v = v < 0 ? 0 : v;
  for (std::int64_t& v : out.integers) v = std::max<std::int64_t>(v, 0);
  step.outputs.push_back(std::move(out));
}

void gelu(Step& step) {
  const Array& x = step.in(0);
  floats_alone(step, x);
  const std::string form = step.text("approximate", "none");
  Array inner;
  if (form == "none") {
    inner = map_floats(step, x, [](double v) { return v / std::sqrt(2.0); });
    step.round(inner);
    for (double& v : inner.floats) v = std::erf(v);
  } else if (form == "tanh") {
    // sqrt(2/pi) (x + 0.044715 x^3)
    inner = map_floats(step, x, [](double v) { return v * v; });
    step.round(inner);
    inner = zip_floats(step, inner, x, [](double square, double v) { return square * v; });
    step.round(inner);
    for (double& v : inner.floats) v *= 0.044715;
    step.round(inner);
    inner = zip_floats(step, inner, x, [](double cube, double v) { return cube + v; });
    step.round(inner);
    for (double& v : inner.floats) v *= 0.7978845608028654;
    step.round(inner);
    for (double& v : inner.floats) v = std::tanh(v);
  } else {
    step.refuse(fmt::format("approximate '{}' is unknown: none and tanh are known", form));
  }
  step.function(inner, 4, 2);
  step.round(inner);
  const Array weight = half_of_one_plus(step, std::move(inner));
  Array out = zip_floats(step, x, weight, [](double v, double w) { return v * w; });
  step.round(out);
  step.outputs.push_back(std::move(out));
}

}  // namespace attest::graph
