// Operators whose results each look at a window of their input: convolutions and pools.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <utility>

#include "graph/loops.hpp"
#include "graph/operators.hpp"
#include "graph/zip.hpp"

namespace attest::graph {
namespace {

// One axis of windows. Position `tap` of window `place` is at from(place, tap) of the input, where that is an element
// of it.
struct Axis {
  Index in = 0, out = 0;
  Index kernel = 1, stride = 1, dilation = 1, begin = 0, end = 0;  // begin, end: padding
  bool transposed = false;                                         // windows of a ConvTranspose: the stride divides

  [[nodiscard]] Index span() const noexcept { return (kernel - 1) * dilation + 1; }
  [[nodiscard]] Index from(Index place, Index tap) const noexcept {
    if (!transposed) return place * stride + tap * dilation - begin;
    const Index whole = place + begin - tap * dilation;
    return whole % stride == 0 ? whole / stride : -1;
  }
};

// All windows of a plane [in...], row-major.
struct Windows {
  std::vector<Axis> axes;
  Index plane = 1, taps = 1, places = 1;
  std::vector<Index> at;  // [taps, places]: the element of the plane, -1 outside

  // The shape [first..., out...].
  [[nodiscard]] std::vector<Index> shape(std::vector<Index> first) const {
    for (const Axis& one : axes) first.push_back(one.out);
    return first;
  }
};

Windows windows_over(const Step& step, std::vector<Axis> axes) {
  Windows w{std::move(axes), 1, 1, 1, {0}};
  // The table [taps, places] of the axes before becomes that of one more.
  for (const Axis& one : w.axes) {
    elements(std::vector<Index>{w.taps, one.kernel, w.places, one.out}, step.most(), "its table of windows");
    std::vector<Index> more;
    more.reserve(static_cast<std::size_t>(w.taps * one.kernel * w.places * one.out));
    for (Index t = 0; t < w.taps; ++t)
      for (Index tap = 0; tap < one.kernel; ++tap)
        for (Index p = 0; p < w.places; ++p)
          for (Index place = 0; place < one.out; ++place) {
            const Index before = w.at[static_cast<std::size_t>(t * w.places + p)], here = one.from(place, tap);
            more.push_back(before < 0 || here < 0 || here >= one.in ? -1 : before * one.in + here);
          }
    w.at = std::move(more);
    w.plane *= one.in;
    w.taps *= one.kernel;
    w.places *= one.out;
  }
  return w;
}

// Axes of x [N, C, ...] as the attributes have them; their `out` and padding are not known yet.
std::vector<Axis> stated_axes(const Step& step, const Array& x, std::span<const Index> kernel) {
  if (x.rank() < 3 || std::ssize(kernel) != x.rank() - 2)
    step.refuse(fmt::format("windows {} of {}", shape_text(kernel), shape_text(x.shape)));
  std::vector<Axis> axes(kernel.size());
  const auto stated = [&](std::string_view name, std::size_t count, Index otherwise, Index least) {
    auto list = step.integers(name).value_or(std::vector<Index>(count, otherwise));
    if (list.size() != count || std::ranges::any_of(list, [least](Index one) { return one < least; }))
      step.refuse(fmt::format("its {} are {}", name, shape_text(list)));
    return list;
  };
  const auto strides = stated("strides", axes.size(), 1, 1), dilations = stated("dilations", axes.size(), 1, 1);
  const auto pads = stated("pads", 2 * axes.size(), 0, 0);
  for (std::size_t k = 0; k < axes.size(); ++k) {
    if (kernel[k] < 1) step.refuse(fmt::format("windows {}", shape_text(kernel)));
    axes[k] = {x.shape[k + 2], 0, kernel[k], strides[k], dilations[k], pads[k], pads[k + axes.size()]};
  }
  return axes;
}

enum class Padding : std::uint8_t { stated, same_upper, same_lower, valid };

Padding padding_of(const Step& step) {
  const std::string mode = step.text("auto_pad", "NOTSET");
  constexpr std::string_view names[] = {"NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"};
  const auto* const found = std::ranges::find(names, mode);
  if (found == std::end(names)) step.refuse(fmt::format("auto_pad '{}' is unknown", mode));
  return static_cast<Padding>(found - std::begin(names));
}

// Splits `all` elements of padding: the odd one goes to the end or, with `lower`, to the beginning.
void pad(Axis& axis, Index all, bool lower) {
  axis.begin = lower ? all - all / 2 : all / 2;
  axis.end = all - axis.begin;
}

// Windows of a convolution or a pool. Those that begin in the padding behind the input are left out.
Windows sliding(const Step& step, const Array& x, std::span<const Index> kernel) {
  auto axes = stated_axes(step, x, kernel);
  const Padding padding = padding_of(step);
  const bool up = step.integer("ceil_mode", 0) != 0;
  for (Axis& one : axes) {
    if (padding == Padding::valid) pad(one, 0, false);
    if (padding == Padding::same_upper || padding == Padding::same_lower) {
      one.out = (one.in + one.stride - 1) / one.stride;
      pad(one, std::max<Index>(0, (one.out - 1) * one.stride + one.span() - one.in), padding == Padding::same_lower);
      continue;
    }
    const Index room = one.in + one.begin + one.end - one.span();
    if (room < 0)
      step.refuse(fmt::format("windows of {} elements on an axis of {}", one.span(), one.in + one.begin + one.end));
    one.out = (room + (up ? one.stride - 1 : 0)) / one.stride + 1;
    if (up && (one.out - 1) * one.stride >= one.in + one.begin) --one.out;
  }
  return windows_over(step, std::move(axes));
}

// Windows of a ConvTranspose: for each result those elements that a convolution of its shape would have made from it.
Windows spreading(const Step& step, const Array& x, std::span<const Index> kernel) {
  auto axes = stated_axes(step, x, kernel);
  const Padding padding = padding_of(step);
  const auto more = step.integers("output_padding").value_or(std::vector<Index>(axes.size(), 0));
  const auto shape = step.integers("output_shape");
  if (more.size() != axes.size() || (shape && shape->size() < axes.size()))
    step.refuse("its output_padding or output_shape has another number of axes");
  for (std::size_t k = 0; k < axes.size(); ++k) {
    Axis& one = axes[k];
    one.transposed = true;
    if (padding == Padding::valid) pad(one, 0, false);
    const Index whole = one.stride * (one.in - 1) + more[k] + one.span();
    const bool same = padding == Padding::same_upper || padding == Padding::same_lower;
    if (shape || same) {
      one.out = shape ? (*shape)[shape->size() - axes.size() + k] : one.in * one.stride;
      pad(one, std::max<Index>(0, whole - one.out), padding != Padding::same_upper);
    } else {
      one.out = whole - one.begin - one.end;
    }
    if (one.out < 0) step.refuse(fmt::format("its result has an axis of length {}", one.out));
  }
  return windows_over(step, std::move(axes));
}

// Products of weights [groups, maps, channels, taps] with what windows show of x [images, groups, channels, plane], and
// a bias [groups, maps] as one more term: results [images, groups, maps, places].
class Convolution {
 public:
  Convolution(const Array& x, const Array& weights, const Array* bias, const Windows& windows, Index groups, Index maps)
      : x_(x), weights_(weights), bias_(bias), windows_(windows), groups_(groups), maps_(maps) {
    images_ = x.shape[0];
    channels_ = x.shape[1] / groups;
  }

  // The sums, exact, and those of their terms' squares in the first lane, where there is room for them.
  [[nodiscard]] Array exactly(const Step& step, std::vector<double>* squares = nullptr) const {
    Array out = step.make(x_.type, windows_.shape({images_, groups_ * maps_}),
                          std::max({x_.lanes, weights_.lanes, bias_ == nullptr ? 1 : bias_->lanes}));
    if (squares != nullptr) squares->resize(static_cast<std::size_t>(out.size()));
    for (Index l = 0; l < out.lanes; ++l) add_up(step, l, out.lane(l), l > 0 ? nullptr : squares);
    return out;
  }

  // The sums with their errors, not yet stored.
  [[nodiscard]] Array sums(Step& step) const {
    std::vector<double> squares;
    Array out = exactly(step, step.has_errors() ? &squares : nullptr);
    step.sum(out, products() + (bias_ == nullptr ? 0 : 1), squares,
             [this](Index lane, Index sum, std::span<double> to) { terms(lane, sum, to); });
    return out;
  }

 private:
  [[nodiscard]] Index products() const noexcept { return channels_ * windows_.taps; }  // those of each sum

  void add_up(const Step& step, Index lane, std::span<double> out, std::vector<double>* squares) const {
    const double* const bias = bias_ == nullptr ? nullptr : bias_->lane(lane).data();
    const Index sums = maps_ * windows_.places;
    for (Index part = 0; part < images_ * groups_; ++part) {
      const double* const planes = x_.lane(lane).data() + part * channels_ * windows_.plane;
      // Elements that windows show, [channels, taps] by places.
      const Strip seen = [&, planes](Index row, Index rows, Index column, Index columns, double* to) {
        step.worked(maps_ * rows * columns);
        for (Index term = row; term < row + rows; ++term, to += strip_columns) {
          const double* const plane = planes + term / windows_.taps * windows_.plane;
          const Index* const at = windows_.at.data() + term % windows_.taps * windows_.places + column;
          for (Index j = 0; j < columns; ++j) to[j] = at[j] < 0 ? 0 : plane[at[j]];
        }
      };
      const Index group = part % groups_;
      double* const to = out.data() + part * sums;
      double* const of_squares = squares == nullptr ? nullptr : squares->data() + part * sums;
      multiply_matrices(weights_.lane(lane).data() + group * maps_ * products(), seen, to, maps_, products(),
                        windows_.places, of_squares, maps_);
      const auto add = [this](double* all, Index map, double one) {
        for (Index p = 0; p < windows_.places; ++p) all[map * windows_.places + p] += one;
      };
      for (Index map = 0; bias != nullptr && map < maps_; ++map) {
        const double one = bias[group * maps_ + map];
        add(to, map, one);
        if (of_squares != nullptr) add(of_squares, map, one * one);
      }
    }
  }

  void terms(Index lane, Index sum, std::span<double> to) const {
    const Index place = sum % windows_.places, map = sum / windows_.places % maps_;
    const Index part = sum / windows_.places / maps_, group = part % groups_;
    const double* weight = weights_.lane(lane).data() + (group * maps_ + map) * products();
    auto next = to.begin();
    for (Index c = 0; c < channels_; ++c) {
      const double* const plane = x_.lane(lane).data() + (part * channels_ + c) * windows_.plane;
      for (Index t = 0; t < windows_.taps; ++t, ++weight) {
        const Index at = windows_.at[static_cast<std::size_t>(t * windows_.places + place)];
        *next++ = at < 0 ? 0 : *weight * plane[at];
      }
    }
    if (bias_ != nullptr) *next = bias_->lane(lane)[static_cast<std::size_t>(group * maps_ + map)];
  }

  const Array &x_, &weights_;
  const Array* bias_;
  const Windows& windows_;
  Index groups_, maps_, images_ = 0, channels_ = 0;
};

// The lengths of windows: those of the weights, which an attribute may say again.
std::span<const Index> kernel_of(const Step& step, const Array& weights) {
  if (weights.rank() < 3) step.refuse(fmt::format("weights {}", shape_text(weights.shape)));
  const auto kernel = std::span<const Index>(weights.shape).subspan(2);
  if (const auto stated = step.integers("kernel_shape"); stated && !std::ranges::equal(*stated, kernel))
    step.refuse(fmt::format("a kernel {} and weights {}", shape_text(*stated), shape_text(weights.shape)));
  return kernel;
}

// The number of groups, which divides channels and maps.
Index groups_of(const Step& step, const Array& x, const Array& weights, Index channels, Index maps) {
  const Index groups = step.integer("group", 1);
  if (groups < 1 || x.rank() < 2 || channels != x.shape[1] || channels % groups != 0 || maps % groups != 0)
    step.refuse(fmt::format("weights {} for {} in {} groups", shape_text(weights.shape), shape_text(x.shape), groups));
  return groups;
}

const Array* bias_of(const Step& step, const Array& x, Index maps) {
  const Array* const bias = step.maybe(2);
  if (bias == nullptr) return nullptr;
  same_types(step, x, *bias);
  if (bias->rank() != 1 || bias->size() != maps)
    step.refuse(fmt::format("a bias {} of {} maps", shape_text(bias->shape), maps));
  return bias;
}

}  // namespace

void convolution(Step& step) {
  const Array &x = step.in(0), &weights = step.in(1);
  floats_alone(step, x);
  same_types(step, x, weights);
  const Windows windows = sliding(step, x, kernel_of(step, weights));
  const Index maps = weights.shape[0];
  const Index groups = groups_of(step, x, weights, weights.shape[1] * step.integer("group", 1), maps);
  Array out = Convolution(x, weights, bias_of(step, x, maps), windows, groups, maps / groups).sums(step);
  step.round(out);
  step.outputs.push_back(std::move(out));
}

namespace {

// Numbers of 8 bits less their zero point, exact: one for all, or one for each index of the first axis.
Array less_zero(const Step& step, std::size_t index, std::size_t zero_index) {
  const Array& x = step.in(index);
  if (x.type != Type::u8 && x.type != Type::i8)
    step.refuse(fmt::format("{}: uint8 and int8 are convolved", name(x.type)));
  Array zero = zeros(x.type, {1});
  if (step.maybe(zero_index) != nullptr) zero = step.in(zero_index);
  same_types(step, x, zero);
  if (zero.size() != 1 && (index == 0 || zero.size() != x.shape[0])) step.refuse("a zero point of another length");
  zero.shape.assign(x.shape.size(), 1);
  zero.shape[0] = zero.size();
  const Array less = zip_integers(step, x, zero, Type::i64, [](std::int64_t v, std::int64_t z) { return v - z; });
  Array out = step.make(Type::f64, less.shape, less.lanes);
  std::ranges::copy(less.integers, out.floats.begin());
  return out;
}

}  // namespace

void integer_convolution(Step& step) {
  const Array x = less_zero(step, 0, 2), weights = less_zero(step, 1, 3);
  const Windows windows = sliding(step, x, kernel_of(step, weights));
  const Index maps = weights.shape[0];
  const Index groups = groups_of(step, x, weights, weights.shape[1] * step.integer("group", 1), maps);
  // Sums of products of 9 bits are exact in float64 for all lengths that fit into memory.
  const Array sums = Convolution(x, weights, nullptr, windows, groups, maps / groups).exactly(step);
  Array out = step.make(Type::i32, sums.shape, sums.lanes);
  std::ranges::transform(sums.floats, out.integers.begin(), [](double v) { return static_cast<std::int64_t>(v); });
  step.outputs.push_back(std::move(out));
}

void transposed_convolution(Step& step) {
  const Array &x = step.in(0), &weights = step.in(1);
  floats_alone(step, x);
  same_types(step, x, weights);
  const Windows windows = spreading(step, x, kernel_of(step, weights));
  const Index maps = weights.shape[1],
              groups = groups_of(step, x, weights, weights.shape[0], maps * step.integer("group", 1));
  // Weights [groups, channels, maps, taps] become [groups, maps, channels, taps].
  Array apart = weights;
  apart.shape = {groups, weights.shape[0] / groups, maps, windows.taps};
  apart = transposed(step, apart, std::vector<Index>{0, 2, 1, 3});
  Array out = Convolution(x, apart, bias_of(step, x, groups * maps), windows, groups, maps).sums(step);
  step.round(out);
  step.outputs.push_back(std::move(out));
}

namespace {

Windows windows_of_pool(const Step& step, const Array& x) {
  const auto kernel = step.integers("kernel_shape");
  if (!kernel) step.refuse("it has no kernel_shape");
  return sliding(step, x, *kernel);
}

// Sums over windows of each channel, with the errors of sums but not yet stored.
Array window_sums(Step& step, const Array& x, const Windows& windows) {
  Array ones = step.make(x.type, {x.shape[1], windows.taps}, 1);
  std::ranges::fill(ones.floats, 1.0);
  return Convolution(x, ones, nullptr, windows, x.shape[1], 1).sums(step);
}

}  // namespace

void average_pool(Step& step) {
  const Array& x = step.in(0);
  floats_alone(step, x);
  const Windows windows = windows_of_pool(step, x);
  Array out = window_sums(step, x, windows);
  // The number of a window's elements that are the input's, or its padding's, too.
  const bool padded = step.integer("count_include_pad", 0) != 0;
  std::vector<double> counts{1};
  for (const Axis& one : windows.axes) {
    std::vector<double> more;
    for (const double count : counts)
      for (Index place = 0; place < one.out; ++place) {
        Index here = 0;
        for (Index tap = 0; tap < one.kernel; ++tap) {
          const Index at = one.from(place, tap);
          here += padded ? at >= -one.begin && at < one.in + one.end : at >= 0 && at < one.in;
        }
        more.push_back(count * static_cast<double>(here));
      }
    counts = std::move(more);
  }
  for (std::size_t i = 0; i < out.floats.size(); ++i) out.floats[i] /= counts[i % counts.size()];
  step.round(out);
  step.outputs.push_back(std::move(out));
}

void lp_pool(Step& step) {
  const Array& x = step.in(0);
  floats_alone(step, x);
  const auto p = static_cast<double>(step.integer("p", 2));
  const auto raised = [&](const Array& base, double exponent) {
    const Array by = floats(x.type, {}, {exponent});
    return exponent == 1     ? base
           : exponent == 0.5 ? step.part(square_root, {&base}, {})
                             : step.part(power, {&base, &by}, {});
  };
  Array sums = window_sums(step, raised(step.part(absolute, {&x}, {}), p), windows_of_pool(step, x));
  step.round(sums);
  step.outputs.push_back(raised(sums, 1 / p));
}

namespace {

// The tap with the largest number of each window, -1 without one. Among equal ones it is the first or, with `last`, the
// last: ONNX leaves that open.
template <class T>
std::vector<Index> largest_taps(std::span<const T> plane, const Windows& windows, bool last) {
  std::vector<Index> best(static_cast<std::size_t>(windows.places), -1);
  for (std::size_t i = 0; i < windows.at.size(); ++i) {
    Index& chosen = best[i % best.size()];
    const Index at = windows.at[i];
    if (at < 0) continue;
    const T here = plane[static_cast<std::size_t>(at)];
    if (chosen < 0 || here > plane[static_cast<std::size_t>(chosen)] ||
        (last ? !(here < plane[static_cast<std::size_t>(chosen)]) : here != here))
      chosen = at;
  }
  return best;
}

}  // namespace

void max_pool(Step& step) {
  Array x = step.in(0);
  const Windows windows = windows_of_pool(step, x);
  const bool floating = is_floating(x.type), indices = step.output_count() > 1;
  if (indices) step.spread(x);  // the choice among equal numbers differs between lanes
  Array out = step.make(x.type, windows.shape({x.shape[0], x.shape[1]}), x.lanes);
  Array where = step.make(Type::i64, out.shape, indices ? x.lanes : 1);
  // Numbers of the elements of a plane, by its first axis or its last one first.
  std::vector<Index> strides;
  Index all = 1;
  const bool columns = step.integer("storage_order", 0) != 0;
  for (std::size_t k = 0; k < windows.axes.size(); ++k) {
    strides.push_back(all);
    all *= windows.axes[columns ? k : windows.axes.size() - 1 - k].in;
  }
  if (!columns) std::ranges::reverse(strides);
  const auto number = [&](Index at) {
    Index sum = 0;
    for (std::size_t k = windows.axes.size(); k-- > 0; at /= windows.axes[k].in)
      sum += at % windows.axes[k].in * strides[k];
    return sum;
  };
  const auto pool = [&]<class T>(std::span<const T> from, std::span<T> to, Index lane) {
    const auto plane = static_cast<std::size_t>(windows.plane), places = static_cast<std::size_t>(windows.places);
    for (std::size_t c = 0; c < to.size() / std::max<std::size_t>(places, 1); ++c) {
      const auto best = largest_taps(from.subspan(c * plane, plane), windows, lane % 2 != 0);
      for (std::size_t p = 0; p < places; ++p) {
        if (best[p] < 0) step.refuse("a window lies in the padding alone");
        to[c * places + p] = from[c * plane + static_cast<std::size_t>(best[p])];
        if (indices) where.integer_lane(lane)[c * places + p] = static_cast<Index>(c * plane) + number(best[p]);
      }
    }
  };
  for (Index l = 0; l < x.lanes; ++l) {
    if (floating)
      pool(std::as_const(x).lane(l), out.lane(l), l);
    else
      pool(std::as_const(x).integer_lane(l), out.integer_lane(l), l);
  }
  step.outputs.push_back(std::move(out));
  if (indices) step.outputs.push_back(std::move(where));
}

namespace {

// A reduction of all axes behind the channels.
void over_planes(Step& step, void (*reduce)(Step&)) {
  const Array& x = step.in(0);
  if (x.rank() < 3) step.refuse(fmt::format("{} has no axes behind its channels", shape_text(x.shape)));
  std::vector<Index> axes(x.shape.size() - 2);
  std::iota(axes.begin(), axes.end(), Index{2});
  step.outputs.push_back(step.part(reduce, {&x}, {{"axes", std::move(axes)}}));
}

}  // namespace

void global_average_pool(Step& step) { over_planes(step, reduce_mean); }
void global_max_pool(Step& step) { over_planes(step, reduce_max); }

}  // namespace attest::graph
