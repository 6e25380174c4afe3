#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <utility>

#include "graph/operators.hpp"
#include "graph/zip.hpp"

namespace attest::graph {
namespace {

// One axis: its lengths, the scale from the input's to the result's, and the region of interest.
struct Resized {
  std::size_t at = 0;
  Index in = 0, out = 0;
  double scale = 1;
  double from = 0, to = 1;
  [[nodiscard]] bool stays() const noexcept { return scale == 1 && in == out && from == 0 && to == 1; }
};

// Elements of an axis that results are made of, in each lane, and their weights.
struct Taps {
  Index count = 1;            // taps of a result
  std::vector<Index> places;  // [lanes, out, count]
  Array weights;              // [out, count] in each lane
  std::vector<char> outside;  // [lanes, out]: the extrapolation value in place of a sum
};

// Coordinates and weights are float32 whatever the tensor and the precision are.
constexpr Format coordinates = Format::f32;

// The places of results on the axis of the input, (i + shift) ratio + offset, each part stored. Every other lane's
// scale is the ratio of both lengths, as the operator's document has it, in place of the one that is stated, which
// runtimes and onnx's reference take.
Array positions(Step& step, const Resized& axis, const std::string& mode) {
  const auto in = static_cast<double>(axis.in), out = static_cast<double>(axis.out);
  Array scale = floats(Type::f32, {1}, {axis.scale});
  step.spread(scale);
  for (std::size_t l = 1; l < scale.floats.size(); l += 2) scale.floats[l] = out / in;
  step.round(scale, coordinates);
  Array ratio = scale, offset = scale;
  double shift = 0;
  for (std::size_t l = 0; l < scale.floats.size(); ++l) {
    const double s = scale.floats[l], width = l % 2 == 0 ? axis.scale * in : out;  // width: the result's
    double& r = ratio.floats[l];
    double& o = offset.floats[l];
    r = 1 / s;
    o = 0;
    if (mode == "half_pixel" || mode == "half_pixel_symmetric" || (mode == "pytorch_half_pixel" && axis.out > 1)) {
      shift = 0.5;
      o = -0.5;
      if (mode == "half_pixel_symmetric") o += in / 2 * (1 - out / (s * in));
    } else if (mode == "tf_half_pixel_for_nn") {
      shift = 0.5;
    } else if (mode == "pytorch_half_pixel") {
      r = 0;
    } else if (mode == "align_corners") {
      r = axis.out == 1 ? 0 : (in - 1) / (width - 1);
    } else if (mode == "tf_crop_and_resize") {
      r = axis.out == 1 ? 0 : (axis.to - axis.from) * (in - 1) / (width - 1);
      o = axis.out == 1 ? 0.5 * (axis.from + axis.to) * (in - 1) : axis.from * (in - 1);
    } else if (mode != "asymmetric") {
      step.refuse(fmt::format("coordinate_transformation_mode '{}' is unknown", mode));
    }
  }
  step.round(ratio, coordinates);
  step.round(offset, coordinates);
  Array at = step.make(Type::f32, {axis.out}, ratio.lanes);
  const auto each = [&](auto f) {
    for (Index l = 0; l < at.lanes; ++l)
      for (std::size_t i = 0; i < static_cast<std::size_t>(axis.out); ++i)
        at.lane(l)[i] = f(at.lane(l)[i], static_cast<double>(i), static_cast<std::size_t>(l));
    step.round(at, coordinates);
  };
  each([&](double /*v*/, double i, std::size_t l) { return (i + shift) * ratio.floats[l]; });
  each([&](double v, double /*i*/, std::size_t l) { return v + offset.floats[l]; });
  return at;
}

double nearest_place(const Step& step, double x, const std::string& mode) {
  if (mode == "round_prefer_floor") return std::ceil(x - 0.5);
  if (mode == "round_prefer_ceil") return std::floor(x + 0.5);
  if (mode == "floor") return std::floor(x);
  if (mode == "ceil") return std::ceil(x);
  step.refuse(fmt::format("nearest_mode '{}' is unknown", mode));
}

// The weight of an element at distance x: a triangle, or Keys's cubic.
double triangle(double x) { return std::max(0.0, 1 - std::fabs(x)); }
double cubic(double x, double a) {
  x = std::fabs(x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

Taps taps_of(Step& step, const Resized& axis, const std::string& mode) {
  const bool old = step.opset() < 11;
  const std::string transformation = step.text("coordinate_transformation_mode", old ? "asymmetric" : "half_pixel");
  const Array at = positions(step, axis, transformation);
  const bool nearest = mode == "nearest", antialias = step.integer("antialias", 0) != 0;
  const double a = step.number("cubic_coeff_a", -0.75);
  // The reach of elements, in steps of the input; in steps of the result where that is shrunk without aliases.
  const double narrow = antialias ? std::min(axis.scale, 1.0) : 1;
  const double reach = (mode == "cubic" ? 2 : 1) / narrow;
  const Index first = nearest ? 0 : static_cast<Index>(std::floor(-reach)) + 1;
  Taps taps;
  taps.count = nearest ? 1 : 2 - 2 * first;
  taps.weights = step.make(Type::f32, {axis.out, taps.count}, at.lanes);
  taps.places.resize(taps.weights.floats.size());
  const bool inside_alone = step.integer("exclude_outside", 0) != 0;
  std::size_t next = 0;
  for (const double x : at.floats) {
    taps.outside.push_back(transformation == "tf_crop_and_resize" && (x < 0 || x > static_cast<double>(axis.in - 1)));
    const double low = nearest ? nearest_place(step, x, step.text("nearest_mode", old ? "floor" : "round_prefer_floor"))
                               : std::floor(x);
    for (Index t = 0; t < taps.count; ++t, ++next) {
      const double place = low + static_cast<double>(first + t), distance = (place - x) * narrow;
      double& weight = taps.weights.floats[next];
      weight = nearest ? 1 : mode == "cubic" ? cubic(distance, a) : triangle(distance);
      const auto last = static_cast<double>(axis.in - 1);
      if (inside_alone && (place < 0 || place > last)) weight = 0;
      taps.places[next] = static_cast<Index>(std::clamp(place, 0.0, last));
    }
  }
  // Horner's scheme goes through numbers of up to 6, whose steps are 8 units of roundoff of 1.
  if (mode == "cubic" || antialias) step.function(taps.weights, 1, 8, coordinates);
  if (antialias || inside_alone)
    for (auto row = taps.weights.floats.begin(); row != taps.weights.floats.end(); row += taps.count) {
      const double sum = std::accumulate(row, row + taps.count, 0.0);
      std::for_each_n(row, taps.count, [sum](double& weight) { weight /= sum; });
    }
  if (!nearest) step.round(taps.weights, coordinates);
  return taps;
}

// Resizes x along one axis by its taps, stored.
Array resized(Step& step, const Array& x, const Resized& axis, const std::string& mode) {
  const Taps taps = taps_of(step, axis, mode);
  const auto whole = std::span<const Index>(x.shape);
  const auto volume = [](std::span<const Index> lengths) {
    return std::accumulate(lengths.begin(), lengths.end(), Index{1}, std::multiplies<>());
  };
  const Index inner = volume(whole.subspan(axis.at + 1));
  auto shape = x.shape;
  shape[axis.at] = axis.out;
  const Index lanes = std::max(x.lanes, taps.weights.lanes);
  Array out = step.make(x.type, shape, lanes);
  const double extrapolated = step.number("extrapolation_value", 0);
  // Tap `tap` of result i of a lane: its element in the lane, and its weight.
  struct Tap {
    std::size_t element, weight;
    bool outside;
  };
  const auto tap_of = [&](Index lane, Index i, Index tap) {
    const Index place = i / inner % axis.out, outer = i / inner / axis.out;
    const auto row = static_cast<std::size_t>((taps.weights.lanes == 1 ? 0 : lane) * axis.out + place);
    const std::size_t weight = row * static_cast<std::size_t>(taps.count) + static_cast<std::size_t>(tap);
    const Index element = (outer * axis.in + taps.places[weight]) * inner + i % inner;
    return Tap{static_cast<std::size_t>(element), weight, taps.outside[row] != 0};
  };
  if (!is_floating(x.type)) {
    for (Index l = 0; l < lanes; ++l)
      for (Index i = 0; i < out.size(); ++i)
        out.integer_lane(l)[static_cast<std::size_t>(i)] = x.integer_lane(l)[tap_of(l, i, 0).element];
    return out;
  }
  const auto term = [&](Index lane, Index i, Index tap) {
    const Tap at = tap_of(lane, i, tap);
    if (at.outside) return tap == 0 ? extrapolated : 0;
    // An element without weight has no part, not even an infinite one.
    const double weight = taps.weights.floats[at.weight];
    return weight == 0 ? 0 : weight * x.lane(lane)[at.element];
  };
  std::vector<double> squares(static_cast<std::size_t>(out.size()));
  for (Index l = 0; l < lanes; ++l)
    for (Index i = 0; i < out.size(); ++i)
      for (Index t = 0; t < taps.count; ++t) {
        const double v = term(l, i, t);
        out.lane(l)[static_cast<std::size_t>(i)] += v;
        if (l == 0) squares[static_cast<std::size_t>(i)] += v * v;
      }
  if (mode == "nearest") return out;
  step.sum(out, taps.count, squares, [&](Index lane, Index sum, std::span<double> to) {
    for (Index t = 0; t < taps.count; ++t) to[static_cast<std::size_t>(t)] = term(lane, sum, t);
  });
  step.round(out);
  return out;
}

// Floats that shapes hang on: the same in all lanes. Nothing where they are left out or empty.
std::vector<double> factors(const Step& step, std::size_t index, std::string_view attribute) {
  if (const Attribute* const stated = attribute.empty() ? nullptr : step.attribute(attribute);
      stated != nullptr && std::holds_alternative<std::vector<double>>(*stated))
    return std::get<std::vector<double>>(*stated);
  const Array* const given = step.maybe(index);
  if (given == nullptr) return {};
  floats_alone(step, *given);
  if (given->lanes > 1) step.refuse("the shape of its result depends on computed floats");
  return given->floats;
}

std::vector<Resized> axes_of(const Step& step, const Array& x) {
  std::vector<Index> named(x.shape.size());
  std::iota(named.begin(), named.end(), Index{0});
  if (const auto stated = step.integers("axes")) named = *stated;
  const bool old = step.opset() < 11;
  const auto scales = factors(step, old ? 1 : 2, old ? "scales" : "");
  const auto region = factors(step, old ? 3 : 1, "");
  std::vector<Index> lengths;
  if (scales.empty() && step.maybe(3) != nullptr) lengths = step.numbers(3);
  if ((scales.empty() ? lengths.size() : scales.size()) != named.size())
    step.refuse(fmt::format("{} scales and {} lengths of {} axes", scales.size(), lengths.size(), named.size()));
  const bool crops = step.text("coordinate_transformation_mode", "") == "tf_crop_and_resize";
  if (crops && region.size() != 2 * named.size()) step.refuse(fmt::format("a roi of {} numbers", region.size()));
  std::vector<Resized> axes;
  for (std::size_t k = 0; k < named.size(); ++k) {
    Resized one;
    one.at = static_cast<std::size_t>(step.axis(named[k], x.rank()));
    one.in = x.shape[one.at];
    if (one.in < 1) step.refuse("it has no elements");
    if (crops) one.from = region[k], one.to = region[named.size() + k];
    if (scales.empty()) {
      one.out = lengths[k];
      one.scale = static_cast<double>(one.out) / static_cast<double>(one.in);
    } else {
      one.scale = scales[k];
      if (!(one.scale > 0)) step.refuse(fmt::format("a scale of {}", one.scale));
      const double length = one.scale * static_cast<double>(one.in);
      if (!(length <= static_cast<double>(step.most()))) step.refuse(fmt::format("a scale of {}", one.scale));
      if (std::floor(length) != std::floor(round_to(Format::f32, length)))
        step.refuse(fmt::format("an axis of {} times {} elements, which rounding decides", one.in, one.scale));
      one.out = static_cast<Index>(length);
    }
    axes.push_back(one);
  }
  const std::string policy = step.text("keep_aspect_ratio_policy", "stretch");
  if (scales.empty() && policy != "stretch") {
    if (policy != "not_larger" && policy != "not_smaller")
      step.refuse(fmt::format("keep_aspect_ratio_policy '{}' is unknown", policy));
    const auto [least, most] = std::ranges::minmax(axes, {}, &Resized::scale);
    const double scale = policy == "not_larger" ? least.scale : most.scale;
    for (Resized& one : axes) {
      one.scale = scale;
      one.out = static_cast<Index>(std::floor(scale * static_cast<double>(one.in) + 0.5));
    }
  }
  return axes;
}

}  // namespace

// Resizes axis by axis. Before version 11 Resize was what Upsample had been.
void resize(Step& step) {
  Array x = step.in(0);
  const std::string mode = step.text("mode", "nearest");
  if (mode != "nearest" && mode != "linear" && mode != "cubic")
    step.refuse(fmt::format("mode '{}': nearest, linear and cubic are evaluated", mode));
  if (mode != "nearest") floats_alone(step, x);
  for (const Resized& axis : axes_of(step, x))
    if (!axis.stays()) x = resized(step, x, axis, mode);
  step.outputs.push_back(std::move(x));
}

}  // namespace attest::graph
