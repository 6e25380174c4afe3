#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "graph/codes.hpp"
#include "graph/operators.hpp"
#include "graph/wire.hpp"
#include "graph/zip.hpp"

namespace attest::graph {
namespace {

// A scale or a zero point, broadcast to x: one number, one for each index of `axis`, or one for each block of these.
Array along_axis(Step& step, const Array& given, const Array& x) {
  if (given.size() == 1) {
    Array one = given;
    one.shape.assign(x.shape.size(), 1);
    return broadcast_to(step, one, x.shape);
  }
  const auto axis = static_cast<std::size_t>(step.axis(step.integer("axis", 1), x.rank()));
  if (const Index block = step.integer("block_size", 0); block > 0) {
    auto blocks = x.shape;
    blocks[axis] = (blocks[axis] + block - 1) / block;
    if (given.shape != blocks)
      step.refuse(fmt::format("a scale or zero point {} of {} in blocks of {}", shape_text(given.shape),
                              shape_text(x.shape), block));
    Array of = zeros(Type::i64, {x.shape[axis]});
    for (std::size_t i = 0; i < of.integers.size(); ++i) of.integers[i] = static_cast<Index>(i) / block;
    return step.part(gather, {&given, &of}, {{"axis", static_cast<std::int64_t>(axis)}});
  }
  if (given.rank() != 1 || given.size() != x.shape[axis])
    step.refuse(fmt::format("a scale or zero point {} of {}", shape_text(given.shape), shape_text(x.shape)));
  Array wide = given;
  wide.shape.assign(x.shape.size(), 1);
  wide.shape[axis] = given.size();
  return broadcast_to(step, wide, x.shape);
}

// Types that numbers are quantised to: integers and floats of 16 bits and less.
bool is_quantised(Type type) noexcept {
  return !is_floating(type) && type != Type::boolean && type != Type::f8e8m0 && width_of(type) <= 16;
}

// A scale is computed with in the format that the operator's floats have.
const Array& scale_of(const Step& step) {
  const Array& scale = step.in(1);
  floats_alone(step, scale);
  return scale;
}

// x over a scale. Runtimes divide, or multiply by a reciprocal, whose error all elements share: where they lie halfway
// between two integers, all are rounded alike.
Array quotients_of(Step& step, const Array& x, Array scale) {
  step.function(scale, 2);
  Array quotients = zip_floats(step, x, along_axis(step, scale, x), [](double v, double s) { return v / s; });
  step.round(quotients);
  return quotients;
}

// Quotients that are computed, to the nearest number of the type; the zero point is added to what is rounded to
// integers, and to what becomes floats before.
Array to_integers(const Step& step, const Array& quotients, const Array& zero, Type type) {
  const Coding how{step.integer("saturate", 1) != 0};
  Array out = step.make(type, quotients.shape, std::max(quotients.lanes, zero.lanes));
  for (Index l = 0; l < out.lanes; ++l) {
    const auto q = quotients.lane(l);
    const auto z = zero.integer_lane(l);
    const auto to = out.integer_lane(l);
    for (std::size_t i = 0; i < to.size(); ++i) {
      if (is_code(type)) {
        to[i] = encoded(type, q[i] + decoded(type, z[i]), how);
        continue;
      }
      const auto [least, most] = range_of(type);
      const double value = nearest_whole(q[i]) + static_cast<double>(z[i]);
      to[i] = std::isnan(value)
                  ? 0
                  : static_cast<std::int64_t>(std::clamp(value, static_cast<double>(least), static_cast<double>(most)));
    }
  }
  return out;
}

}  // namespace

void quantize_linear(Step& step) {
  const Array& x = step.in(0);
  floats_alone(step, x);
  Type type = Type::u8;
  if (const Index stated = step.integer("output_dtype", 0); stated != 0) {
    try {
      type = type_of(stated, "its result");
    } catch (const Fault& fault) {
      step.refuse(fault.why);
    }
  }
  if (step.maybe(2) != nullptr) type = step.in(2).type;
  if (!is_quantised(type)) step.refuse(fmt::format("{} is no type that numbers are quantised to", name(type)));
  same_types(step, x, scale_of(step));
  if (const Index stated = step.integer("precision", 0); stated != 0 && stated != data_type(x.type))
    step.refuse("a division in another type than its numbers have");
  const Array quotients = quotients_of(step, x, scale_of(step));
  const Array zero = step.maybe(2) == nullptr ? zeros(type, x.shape) : along_axis(step, step.in(2), x);
  step.outputs.push_back(to_integers(step, quotients, zero, type));
}

void dequantize_linear(Step& step) {
  const Array& x = step.in(0);
  if (!is_quantised(x.type) && x.type != Type::i32)
    step.refuse(fmt::format("{} is no type that numbers are quantised to", name(x.type)));
  const Array scale = along_axis(step, scale_of(step), x);
  if (const Index stated = step.integer("output_dtype", 0); stated != 0 && stated != data_type(scale.type))
    step.refuse("a result of another type than its scale has");
  Array zero = zeros(x.type, x.shape);
  if (step.maybe(2) != nullptr) {
    alike(step, x, step.in(2));
    zero = along_axis(step, step.in(2), x);
  }
  const auto number = [type = x.type](std::int64_t v) {
    return is_code(type) ? decoded(type, v) : static_cast<double>(v);
  };
  Array out = step.make(scale.type, x.shape, std::max({x.lanes, scale.lanes, zero.lanes}));
  for (Index l = 0; l < out.lanes; ++l) {
    const auto q = x.integer_lane(l);
    const auto z = std::as_const(zero).integer_lane(l);
    const auto s = scale.lane(l);
    const auto to = out.lane(l);
    for (std::size_t i = 0; i < to.size(); ++i) to[i] = (number(q[i]) - number(z[i])) * s[i];
  }
  if (x.type == Type::i32) {
    step.function(out, 1);  // 32 bits are rounded before they are multiplied
  } else if (!is_code(x.type)) {
    // Runtimes that write the pair of quantising and back as one operator count from the end of its range: the value of
    // a number of 8 bits is there the difference of two numbers of up to 256 scales.
    const Array end = map_floats(step, scale, [&](double s) { return std::ldexp(s, width_of(x.type)); });
    out = zip_floats(step, out, end, [](double v, double e) { return v + e; });
    step.function(out, 1);  // the error of a zero, too, which rounding alone leaves as it is
    out = zip_floats(step, out, end, [](double v, double e) { return v - e; });
  }
  step.round(out);
  step.outputs.push_back(std::move(out));
}

void dynamic_quantize_linear(Step& step) {
  const Array& x = step.in(0);
  if (x.type != Type::f32) step.refuse(fmt::format("{} in place of float32", name(x.type)));
  if (x.size() == 0) step.refuse("it has no elements");
  Array least = step.make(x.type, {}, x.lanes), scale = least;
  for (Index l = 0; l < x.lanes; ++l) {
    const auto [low, high] = std::ranges::minmax(x.lane(l));
    least.lane(l)[0] = std::min(low, 0.0);
    scale.lane(l)[0] = std::max(high, 0.0) - least.lane(l)[0];
  }
  step.round(scale);
  for (double& v : scale.floats) v /= 255;
  step.function(scale, 1);
  step.round(scale);
  // The formula's scale of zeros alone is 0; a runtime's is its own.
  if (std::ranges::any_of(scale.floats, [](double v) { return !(v > 0); })) step.refuse("its numbers are all 0");
  for (double& v : least.floats) v = -v;
  // A zero point halfway between two integers is rounded to one of them by the last digit of the scale, and all results
  // hang on that.
  for (Index l = 0; l < least.lanes; ++l) {
    const double steps = least.lane(l)[0] / scale.lane(0)[0];
    if (std::fabs(steps - std::floor(steps) - 0.5) < 1e-4)
      step.refuse("its zero point lies halfway between two integers");
  }
  const Array zero = quotients_of(step, least, scale);
  Array point = to_integers(step, zero, zeros(Type::u8, {}), Type::u8);
  const Array quotients = quotients_of(step, x, scale);
  Array out = to_integers(step, quotients, broadcast_to(step, point, x.shape), Type::u8);
  step.outputs.push_back(std::move(out));
  step.outputs.push_back(std::move(scale));
  step.outputs.push_back(std::move(point));
}

}  // namespace attest::graph
