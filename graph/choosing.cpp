#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>

#include "graph/codes.hpp"
#include "graph/operators.hpp"
#include "graph/wire.hpp"
#include "graph/zip.hpp"

namespace attest::graph {
namespace {

// Picks one of its operands: nothing is rounded. NaN stays.
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

}  // namespace

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

void logical_xor(Step& step) {
  booleans_alone(step, step.in(0));
  booleans_alone(step, step.in(1));
  step.outputs.push_back(
      zip_integers(step, step.in(0), step.in(1), Type::boolean, [](std::int64_t x, std::int64_t y) { return x ^ y; }));
}

namespace {

template <class F>
void each_bit(Step& step, F f) {
  const Array &a = step.in(0), &b = step.in(1);
  same_types(step, a, b);
  if (is_floating(a.type) || a.type == Type::boolean) step.refuse(fmt::format("{} has no bits", name(a.type)));
  step.outputs.push_back(zip_integers(step, a, b, a.type, f));
}

}  // namespace

void bitwise_and(Step& step) {
  each_bit(step, [](std::int64_t x, std::int64_t y) { return x & y; });
}
void bitwise_or(Step& step) {
  each_bit(step, [](std::int64_t x, std::int64_t y) { return x | y; });
}
void bitwise_xor(Step& step) {
  each_bit(step, [](std::int64_t x, std::int64_t y) { return x ^ y; });
}
void bitwise_not(Step& step) {
  Array out = step.in(0);
  if (is_floating(out.type) || out.type == Type::boolean) step.refuse(fmt::format("{} has no bits", name(out.type)));
  for (std::int64_t& v : out.integers) v = wrapped(out.type, ~bits_of(v));
  step.outputs.push_back(std::move(out));
}

namespace {

template <class F>
void floats_that(Step& step, F f) {
  const Array& x = step.in(0);
  floats_alone(step, x);
  Array out = step.make(Type::boolean, x.shape, x.lanes);
  std::ranges::transform(x.floats, out.integers.begin(), [f](double v) { return std::int64_t{f(v)}; });
  step.outputs.push_back(std::move(out));
}

}  // namespace

void is_nan(Step& step) {
  floats_that(step, [](double x) { return std::isnan(x); });
}
void is_infinite(Step& step) {
  const bool above = step.integer("detect_positive", 1) != 0, below = step.integer("detect_negative", 1) != 0;
  floats_that(step, [above, below](double x) { return std::isinf(x) && (x > 0 ? above : below); });
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

template <class F>
void whole_numbers(Step& step, F f) {
  floats_alone(step, step.in(0));
  step.outputs.push_back(map_floats(step, step.in(0), f));
}

}  // namespace

void round_up(Step& step) {
  whole_numbers(step, [](double x) { return std::ceil(x); });
}
void round_down(Step& step) {
  whole_numbers(step, [](double x) { return std::floor(x); });
}
void round_to_even(Step& step) { whole_numbers(step, nearest_whole); }

void sign(Step& step) {
  Array out = step.in(0);
  if (out.type == Type::boolean) step.refuse("booleans have no sign");
  for (double& v : out.floats) v = v > 0 ? 1 : v < 0 ? -1 : v;  // NaN stays
  for (std::int64_t& v : out.integers) v = v > 0 ? 1 : v < 0 ? -1 : 0;
  step.outputs.push_back(std::move(out));
}

namespace {

// Tells whether a number, truncated, is one of an integer type.
bool is_held(double x, Type type) noexcept {
  const auto [least, most] = range_of(type);
  const double beyond = type == Type::u64 ? 0x1p64 : static_cast<double>(most) + 1, whole = std::trunc(x);
  return whole >= static_cast<double>(least) && whole < beyond;
}

// Truncates a number. ONNX leaves open what becomes of one that the type does not hold: here its nearest number, and 0
// for NaN.
std::int64_t truncated(double x, Type type) noexcept {
  const auto [least, most] = range_of(type);
  if (std::isnan(x)) return 0;
  // The lowest bits, of types below a byte: so onnx's tests have it.
  if (width_of(type) < 8 && std::fabs(x) < 0x1p62) return wrapped(type, bits_of(static_cast<std::int64_t>(x)));
  if (type == Type::u64 && x >= 0x1p63)
    return wrapped(type, x < 0x1p64 ? static_cast<std::uint64_t>(x) : ~std::uint64_t{0});
  if (x >= static_cast<double>(most)) return most;
  if (x <= static_cast<double>(least)) return least;
  return static_cast<std::int64_t>(x);
}

// Tells whether every number of `from` is one of `to`.
bool holds_all(Format to, Format from) noexcept {
  return precision(to) >= precision(from) && min_exponent(to) <= min_exponent(from) &&
         largest_finite(to) >= largest_finite(from);
}

// The attributes of a conversion to floats of 8 and 4 bits.
Coding coding_of(const Step& step) {
  const std::string round = step.text("round_mode", "up");
  return {step.integer("saturate", 1) != 0, round == "down"      ? Coding::Round::down
                                            : round == "nearest" ? Coding::Round::nearest
                                                                 : Coding::Round::up};
}

Array cast_floats(Step& step, const Array& x, Type to) {
  Array out = step.make(to, x.shape, x.lanes);
  if (is_floating(to)) {
    out.floats = x.floats;
    if (!holds_all(format_of(to), format_of(x.type))) step.round(out);
    return out;
  }
  std::ranges::transform(x.floats, out.integers.begin(), [&, how = coding_of(step)](double v) {
    if (is_code(to)) return encoded(to, v, how);
    return to == Type::boolean ? std::int64_t{v != 0} : truncated(v, to);
  });
  std::vector<Index> open;
  if (!is_code(to) && to != Type::boolean)
    for (std::size_t i = 0; i < x.floats.size(); ++i)
      if (!is_held(x.floats[i], to)) open.push_back(static_cast<Index>(i));
  step.leave_open(out, open);
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
    std::transform(x.integers.begin(), x.integers.end(), out.integers.begin(),
                   [&, how = coding_of(step)](std::int64_t v) {
                     if (is_code(to)) return encoded(to, static_cast<double>(v), how);
                     return to == Type::boolean ? std::int64_t{v != 0} : wrapped(to, bits_of(v));
                   });
  }
  return out;
}

void cast_to(Step& step, Type to) {
  const Array& x = step.in(0);
  if (x.type == to)
    step.outputs.push_back(x);
  else if (is_code(x.type))
    step.outputs.push_back(cast_floats(step, decoded(x), to));
  else
    step.outputs.push_back(is_floating(x.type) ? cast_floats(step, x, to) : cast_integers(step, x, to));
}

}  // namespace

void cast(Step& step) {
  Type to = Type::f32;
  try {
    to = type_of(step.integer("to", 0), "its result");
  } catch (const Fault& fault) {
    step.refuse(fault.why);
  }
  cast_to(step, to);
}

// Casts to the type of the other input, whose numbers do not matter.
void cast_like(Step& step) { cast_to(step, step.in(1).type); }

}  // namespace attest::graph
