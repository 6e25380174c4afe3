#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>

#include "graph/operators.hpp"
#include "graph/shapes.hpp"
#include "graph/wire.hpp"

namespace attest::graph {
namespace {

// As it is, or read as `shape` into `room`.
const Array& as_shape(const Step& step, const Array& x, const std::vector<Index>& shape, Array& room) {
  if (x.shape == shape) return x;
  room = broadcast_to(step, x, shape);
  return room;
}

void same_types(const Step& step, const Array& a, const Array& b) {
  if (a.type != b.type) step.refuse(fmt::format("{} and {} do not go together", name(a.type), name(b.type)));
}

void floats_alone(const Step& step, const Array& x) {
  if (!is_floating(x.type)) step.refuse(fmt::format("{} is no floating-point type", name(x.type)));
}

// f of floats to floats, or to booleans where `type` says so.
template <class F>
Array map_floats(const Step& step, const Array& x, F f) {
  Array out = step.make(x.type, x.shape, x.lanes);
  std::transform(x.floats.begin(), x.floats.end(), out.floats.begin(), f);
  return out;
}

template <class In, class Out, class F>
void zip(const Array& a, const Array& b, Array& out, In in, Out to, F f) {
  for (Index l = 0; l < out.lanes; ++l) {
    const auto x = in(a, l);
    const auto y = in(b, l);
    const auto z = to(out, l);
    for (std::size_t i = 0; i < z.size(); ++i) z[i] = f(x[i], y[i]);
  }
}
constexpr auto float_lane = [](auto& x, Index l) { return x.lane(l); };
constexpr auto integer_lane = [](auto& x, Index l) { return x.integer_lane(l); };

// Both operands in the shape that they broadcast to.
struct Pair {
  Pair(const Step& step, const Array& a, const Array& b)
      : shape(broadcast(step, a.shape, b.shape)),
        lanes(std::max(a.lanes, b.lanes)),
        a(as_shape(step, a, shape, room_a)),
        b(as_shape(step, b, shape, room_b)) {}
  Array room_a, room_b;
  std::vector<Index> shape;
  Index lanes;
  const Array &a, &b;
};

template <class F>
Array zip_floats(const Step& step, const Array& a, const Array& b, F f) {
  const Pair pair(step, a, b);
  Array out = step.make(a.type, pair.shape, pair.lanes);
  zip(pair.a, pair.b, out, float_lane, float_lane, f);
  return out;
}

template <class F>
Array zip_integers(const Step& step, const Array& a, const Array& b, Type type, F f) {
  const Pair pair(step, a, b);
  Array out = step.make(type, pair.shape, pair.lanes);
  zip(pair.a, pair.b, out, integer_lane, integer_lane, f);
  return out;
}

// Integers wrap round, as two's complement has it.
std::int64_t wrapped(Type type, std::uint64_t bits) noexcept {
  return type == Type::i32 ? static_cast<std::int32_t>(static_cast<std::uint32_t>(bits))
                           : static_cast<std::int64_t>(bits);
}
constexpr auto bits_of = [](std::int64_t x) { return static_cast<std::uint64_t>(x); };

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

// What picks one of its operands: nothing is rounded. NaN stays.
template <class Better>
void extreme(Step& step, Better better) {
  Array best = step.in(0);
  for (std::size_t i = 1; i < step.input_count(); ++i) {
    const Array& next = step.in(i);
    same_types(step, best, next);
    best = is_floating(best.type)
               ? zip_floats(step, best, next,
                            [better](double x, double y) { return std::isnan(x) || better(x, y) ? x : y; })
               : zip_integers(step, best, next, best.type,
                              [better](std::int64_t x, std::int64_t y) { return better(x, y) ? x : y; });
  }
  step.outputs.push_back(std::move(best));
}
constexpr auto larger = [](auto x, auto y) { return x > y; };
constexpr auto smaller = [](auto x, auto y) { return x < y; };

template <class F>
void compare(Step& step, F f) {
  const Array &a = step.in(0), &b = step.in(1);
  same_types(step, a, b);
  const Pair pair(step, a, b);
  Array out = step.make(Type::boolean, pair.shape, pair.lanes);
  if (is_floating(a.type))
    zip(pair.a, pair.b, out, float_lane, integer_lane, [f](double x, double y) { return std::int64_t{f(x, y)}; });
  else
    zip(pair.a, pair.b, out, integer_lane, integer_lane,
        [f](std::int64_t x, std::int64_t y) { return std::int64_t{f(x, y)}; });
  step.outputs.push_back(std::move(out));
}

void booleans_alone(const Step& step, const Array& x) {
  if (x.type != Type::boolean) step.refuse(fmt::format("{} where a bool is needed", name(x.type)));
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

void power(Step& step) {
  const Array &a = step.in(0), &b = step.in(1);
  floats_alone(step, a);
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
      step, [](double x) { return 1 / (1 + std::exp(-x)); }, 4);
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

void maximum(Step& step) { extreme(step, larger); }
void minimum(Step& step) { extreme(step, smaller); }

void clip(Step& step) {
  Array out = step.in(0);
  // Bounds were attributes before version 11.
  const auto bound = [&step, &out](std::size_t input, std::string_view attribute, bool is_floor) {
    const Array* limit = step.maybe(input);
    Array room;
    if (limit == nullptr && step.attribute(attribute) != nullptr) {
      room = floats(out.type, {}, {step.number(attribute, 0)});
      limit = &room;
    }
    if (limit == nullptr) return;
    same_types(step, out, *limit);
    if (limit->size() != 1) step.refuse("a bound is one number");
    if (is_floating(out.type))
      out =
          zip_floats(step, out, *limit, [is_floor](double x, double y) { return (is_floor ? x < y : x > y) ? y : x; });
    else
      out = zip_integers(step, out, *limit, out.type, [is_floor](std::int64_t x, std::int64_t y) {
        return is_floor ? std::max(x, y) : std::min(x, y);
      });
  };
  const auto shape = out.shape;
  bound(1, "min", true);
  bound(2, "max", false);
  out.shape = shape;  // a bound of shape [1] adds no axis
  step.outputs.push_back(std::move(out));
}

void equal(Step& step) {
  compare(step, [](auto x, auto y) { return x == y; });
}
void less(Step& step) { compare(step, smaller); }
void less_or_equal(Step& step) {
  compare(step, [](auto x, auto y) { return x <= y; });
}
void greater(Step& step) { compare(step, larger); }
void greater_or_equal(Step& step) {
  compare(step, [](auto x, auto y) { return x >= y; });
}

void logical_not(Step& step) {
  booleans_alone(step, step.in(0));
  Array out = step.in(0);
  for (std::int64_t& v : out.integers) v = v == 0 ? 1 : 0;
  step.outputs.push_back(std::move(out));
}

void logical_and(Step& step) {
  booleans_alone(step, step.in(0));
  booleans_alone(step, step.in(1));
  step.outputs.push_back(
      zip_integers(step, step.in(0), step.in(1), Type::boolean, [](std::int64_t x, std::int64_t y) { return x & y; }));
}

void logical_or(Step& step) {
  booleans_alone(step, step.in(0));
  booleans_alone(step, step.in(1));
  step.outputs.push_back(
      zip_integers(step, step.in(0), step.in(1), Type::boolean, [](std::int64_t x, std::int64_t y) { return x | y; }));
}

void where(Step& step) {
  booleans_alone(step, step.in(0));
  same_types(step, step.in(1), step.in(2));
  const auto shape = broadcast(step, step.in(0).shape, broadcast(step, step.in(1).shape, step.in(2).shape));
  Array rooms[3];
  const Array& condition = as_shape(step, step.in(0), shape, rooms[0]);
  const Array& x = as_shape(step, step.in(1), shape, rooms[1]);
  const Array& y = as_shape(step, step.in(2), shape, rooms[2]);
  Array out = step.make(x.type, shape, std::max({condition.lanes, x.lanes, y.lanes}));
  for (Index l = 0; l < out.lanes; ++l) {
    const auto holds = condition.integer_lane(l);
    const auto choose = [holds](auto to, auto a, auto b) {
      for (std::size_t i = 0; i < to.size(); ++i) to[i] = holds[i] != 0 ? a[i] : b[i];
    };
    if (is_floating(x.type))
      choose(out.lane(l), x.lane(l), y.lane(l));
    else
      choose(out.integer_lane(l), x.integer_lane(l), y.integer_lane(l));
  }
  step.outputs.push_back(std::move(out));
}

namespace {

// Truncates. What the type does not hold, ONNX leaves open: its nearest number, and 0 for NaN.
std::int64_t truncated(double x, Type type) noexcept {
  const double most = type == Type::i32 ? 0x1p31 : 0x1p63;
  if (std::isnan(x)) return 0;
  if (x >= most)
    return type == Type::i32 ? std::numeric_limits<std::int32_t>::max() : std::numeric_limits<std::int64_t>::max();
  if (x < -most)
    return type == Type::i32 ? std::numeric_limits<std::int32_t>::min() : std::numeric_limits<std::int64_t>::min();
  return static_cast<std::int64_t>(x);
}

// Whether every number of `from` is one of `to`.
bool holds_all(Format to, Format from) noexcept {
  return precision(to) >= precision(from) && min_exponent(to) <= min_exponent(from) &&
         largest_finite(to) >= largest_finite(from);
}

Array cast_floats(Step& step, const Array& x, Type to) {
  Array out = step.make(to, x.shape, x.lanes);
  if (is_floating(to)) {
    out.floats = x.floats;
    if (!holds_all(format_of(to), format_of(x.type))) step.round(out);
  } else {
    std::transform(x.floats.begin(), x.floats.end(), out.integers.begin(),
                   [to](double v) { return to == Type::boolean ? std::int64_t{v != 0} : truncated(v, to); });
  }
  return out;
}

Array cast_integers(Step& step, const Array& x, Type to) {
  Array out = step.make(to, x.shape, x.lanes);
  if (is_floating(to)) {
    std::transform(x.integers.begin(), x.integers.end(), out.floats.begin(),
                   [](std::int64_t v) { return static_cast<double>(v); });
    const Format format = format_of(to);
    if (std::any_of(out.floats.begin(), out.floats.end(), [format](double v) { return round_to(format, v) != v; }))
      step.round(out);
  } else {
    std::transform(x.integers.begin(), x.integers.end(), out.integers.begin(), [to](std::int64_t v) {
      return to == Type::boolean ? std::int64_t{v != 0} : wrapped(to, bits_of(v));
    });
  }
  return out;
}

}  // namespace

void cast(Step& step) {
  const Array& x = step.in(0);
  Type to = Type::f32;
  try {
    to = type_of(step.integer("to", 0), "its result");
  } catch (const Fault& fault) {
    step.refuse(fault.why);
  }
  step.outputs.push_back(is_floating(x.type) ? cast_floats(step, x, to) : cast_integers(step, x, to));
}

}  // namespace attest::graph
