#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "graph/operators.hpp"
#include "graph/zip.hpp"

// Operators that read or write elements by number. Where numbers come of computed floats, each lane has its own.
namespace attest::graph {
namespace {

// An index of an axis, counted from the front.
Index place(const Step& step, Index at, Index length) {
  if (at < -length || at >= length) step.refuse(fmt::format("index {} of an axis of length {}", at, length));
  return at < 0 ? at + length : at;
}

// Elements of x by their numbers in a lane of it: numbers(lane of the indices) gives as many as `shape` has elements.
template <class F>
void take(Step& step, std::vector<Index> shape, F numbers) {
  const Stored* const stored = step.stored(0);
  const bool of_weights = stored != nullptr && is_floating(stored->type);
  const Array &indices = step.in(1), *const x = of_weights ? nullptr : &step.in(0);
  Array out = step.make(of_weights ? stored->type : x->type, std::move(shape),
                        std::max(of_weights ? 1 : x->lanes, indices.lanes));
  std::vector<Index> from;
  const auto copy = [&from](auto source, auto to) {
    std::ranges::transform(from, to.begin(), [source](Index at) { return source[static_cast<std::size_t>(at)]; });
  };
  for (Index l = 0; l < out.lanes; ++l) {
    if (l < indices.lanes) from = numbers(indices.integer_lane(l));
    if (of_weights)
      with_floats(*stored, [&](auto element) { std::ranges::transform(from, out.lane(l).begin(), element); });
    else if (is_floating(x->type))
      copy(x->lane(l), out.lane(l));
    else
      copy(x->integer_lane(l), out.integer_lane(l));
  }
  step.outputs.push_back(std::move(out));
}

// The numbers of all elements of `shape` in a tensor of the strides given.
std::vector<Index> numbers_of(const Step& step, const std::vector<Index>& shape, std::span<const Index> strides) {
  std::vector<Index> numbers(static_cast<std::size_t>(elements(shape, step.most(), "its result")), 0);
  Index inner = static_cast<Index>(numbers.size());
  for (std::size_t k = 0; k < shape.size(); ++k) {
    if (inner == 0) break;
    inner /= shape[k];
    for (std::size_t i = 0; i < numbers.size(); ++i)
      numbers[i] += static_cast<Index>(i) / inner % shape[k] * strides[k];
  }
  return numbers;
}

// The numbers in x that a tensor of indices along an axis stands for.
auto along_axis(const Step& step, const Array& x, const Array& indices, std::size_t axis) {
  if (indices.rank() != x.rank())
    step.refuse(fmt::format("indices {} of {}", shape_text(indices.shape), shape_text(x.shape)));
  for (std::size_t k = 0; k < x.shape.size(); ++k)
    if (k != axis && indices.shape[k] > x.shape[k])
      step.refuse(fmt::format("indices {} of {}", shape_text(indices.shape), shape_text(x.shape)));
  auto strides = strides_of(x.shape);
  const Index by = std::exchange(strides[axis], 0), length = x.shape[axis];
  return [&step, by, length, base = numbers_of(step, indices.shape, strides)](std::span<const std::int64_t> lane) {
    std::vector<Index> numbers = base;
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] += place(step, lane[i], length) * by;
    return numbers;
  };
}

// The blocks of x that tuples along the last axis of the indices stand for, behind `batch` axes in common.
struct Blocks {
  Blocks(const Step& step, const Array& x, const Array& indices, Index batch) {
    if (indices.rank() <= batch || x.rank() <= batch || indices.shape.back() < 1 ||
        indices.shape.back() > x.rank() - batch || batch < 0 ||
        !std::equal(x.shape.begin(), x.shape.begin() + batch, indices.shape.begin()))
      step.refuse(fmt::format("indices {} of {}", shape_text(indices.shape), shape_text(x.shape)));
    width = static_cast<std::size_t>(indices.shape.back());
    const auto from = static_cast<std::size_t>(batch);
    const auto all = std::span<const Index>(x.shape);
    lengths.assign(all.begin() + batch, all.begin() + batch + indices.shape.back());
    inner = volume(all.subspan(from + width));
    shape.assign(indices.shape.begin(), indices.shape.end() - 1);
    in_batch = volume(std::span<const Index>(shape).subspan(from));
    shape.insert(shape.end(), all.begin() + batch + indices.shape.back(), all.end());
  }
  std::size_t width;
  std::vector<Index> lengths, shape;  // those of the axes that are indexed; the result's
  Index inner, in_batch;              // elements of a block, tuples of a batch

  [[nodiscard]] std::vector<Index> numbers(const Step& step, std::span<const std::int64_t> lane) const {
    std::vector<Index> numbers;
    for (std::size_t i = 0; i * width < lane.size(); ++i) {
      Index at = static_cast<Index>(i) / in_batch;
      for (std::size_t k = 0; k < width; ++k) at = at * lengths[k] + place(step, lane[i * width + k], lengths[k]);
      for (Index j = 0; j < inner; ++j) numbers.push_back(at * inner + j);
    }
    return numbers;
  }
};

// Updates written into, or combined with, the elements of x of the numbers given.
template <class F>
void scatter(Step& step, F numbers) {
  const Array &x = step.in(0), &indices = step.in(1), &updates = step.in(2);
  same_types(step, x, updates);
  const std::string how = step.text("reduction", "none");
  const Index lanes = std::max({x.lanes, indices.lanes, updates.lanes});
  Array out = step.make(x.type, x.shape, lanes);
  const auto put = [&]<class T>(std::span<T> to, auto from, auto with, const std::vector<Index>& at) {
    std::ranges::copy(from, to.begin());
    for (std::size_t i = 0; i < at.size(); ++i) {
      T& one = to[static_cast<std::size_t>(at[i])];
      const T other = with[i];
      if (how == "none") one = other;
      if (how == "add") one += other;
      if (how == "mul") one *= other;
      if (how == "max") one = one > other || one != one ? one : other;
      if (how == "min") one = one < other || one != one ? one : other;
    }
  };
  if (std::set<std::string_view>{"none", "add", "mul", "max", "min"}.count(how) == 0)
    step.refuse(fmt::format("reduction '{}' is unknown", how));
  Index most = 0;  // updates of one element
  std::vector<std::vector<Index>> all;
  for (Index l = 0; l < lanes; ++l) {
    all.push_back(numbers(indices.integer_lane(l)));
    if (static_cast<Index>(all.back().size()) != updates.size())
      step.refuse(fmt::format("updates {} for indices {}", shape_text(updates.shape), shape_text(indices.shape)));
    std::vector<Index> count(static_cast<std::size_t>(x.size()), 0);
    for (const Index at : all.back()) most = std::max(most, ++count[static_cast<std::size_t>(at)]);
    if (is_floating(x.type))
      put(out.lane(l), x.lane(l), updates.lane(l), all.back());
    else
      put(out.integer_lane(l), x.integer_lane(l), updates.integer_lane(l), all.back());
  }
  if (most > 1 && how == "none") step.refuse("an element is written twice: in which order is open");
  for (std::int64_t& v : out.integers) v = wrapped(out.type, bits_of(v));
  if (how == "mul" && most > 0) {
    step.function(out, static_cast<double>(most));
    step.round(out);
  }
  if (how == "add" && most > 0 && is_floating(x.type)) {
    // Elements of x and what is added to each, as rows of one length.
    const auto row = static_cast<std::size_t>(most + 1);
    std::vector<std::vector<double>> terms;
    for (Index l = 0; l < lanes; ++l) {
      std::vector<double>& rows = terms.emplace_back(static_cast<std::size_t>(x.size()) * row, 0.0);
      std::vector<std::size_t> next(static_cast<std::size_t>(x.size()), 1);
      for (std::size_t i = 0; i < next.size(); ++i) rows[i * row] = x.lane(l)[i];
      const std::vector<Index>& numbers_of_lane = all[static_cast<std::size_t>(l)];
      for (std::size_t i = 0; i < numbers_of_lane.size(); ++i) {
        const auto at = static_cast<std::size_t>(numbers_of_lane[i]);
        rows[at * row + next[at]++] = updates.lane(l)[i];
      }
    }
    std::vector<double> squares(static_cast<std::size_t>(x.size()), 0.0);
    for (std::size_t i = 0; i < terms[0].size(); ++i) squares[i / row] += terms[0][i] * terms[0][i];
    step.sum(out, most + 1, squares, [&](Index lane, Index sum, std::span<double> to) {
      const std::vector<double>& rows = terms[static_cast<std::size_t>(std::min(lane, lanes - 1))];
      std::copy_n(rows.begin() + sum * (most + 1), most + 1, to.begin());
    });
    step.round(out);
  }
  step.outputs.push_back(std::move(out));
}

}  // namespace

void gather(Step& step) {
  const Array& indices = step.in(1);
  const auto whole = std::span<const Index>(step.shape(0));
  const auto axis = static_cast<std::size_t>(step.axis(step.integer("axis", 0), std::ssize(whole)));
  const Index length = whole[axis], outer = volume(whole.first(axis)), inner = volume(whole.subspan(axis + 1));
  std::vector<Index> shape(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(axis));
  shape.insert(shape.end(), indices.shape.begin(), indices.shape.end());
  shape.insert(shape.end(), whole.begin() + static_cast<std::ptrdiff_t>(axis) + 1, whole.end());
  take(step, std::move(shape), [&](std::span<const std::int64_t> lane) {
    std::vector<Index> numbers;
    for (Index i = 0; i < outer; ++i)
      for (const Index at : lane)
        for (Index j = 0; j < inner; ++j) numbers.push_back((i * length + place(step, at, length)) * inner + j);
    return numbers;
  });
}

void gather_elements(Step& step) {
  const auto axis = static_cast<std::size_t>(step.axis(step.integer("axis", 0), step.in(0).rank()));
  take(step, step.in(1).shape, along_axis(step, step.in(0), step.in(1), axis));
}

void gather_blocks(Step& step) {
  const Blocks blocks(step, step.in(0), step.in(1), step.integer("batch_dims", 0));
  take(step, blocks.shape, [&](std::span<const std::int64_t> lane) { return blocks.numbers(step, lane); });
}

void scatter_elements(Step& step) {
  const auto axis = static_cast<std::size_t>(step.axis(step.integer("axis", 0), step.in(0).rank()));
  scatter(step, along_axis(step, step.in(0), step.in(1), axis));
}

void scatter_blocks(Step& step) {
  const Blocks blocks(step, step.in(0), step.in(1), 0);
  scatter(step, [&](std::span<const std::int64_t> lane) { return blocks.numbers(step, lane); });
}

namespace {

// The element of `length` that coordinate `i` of a padded axis is read from; -1 for the constant.
Index source(std::string_view mode, Index i, Index length) {
  if (i >= 0 && i < length) return i;
  if (mode == "edge") return std::clamp<Index>(i, 0, length - 1);
  if (mode == "wrap") return (i % length + length) % length;
  if (mode != "reflect") return -1;
  const Index period = std::max<Index>(1, 2 * (length - 1)), within = (i % period + period) % period;
  return std::min(within, period - within) % length;
}

}  // namespace

void pad(Step& step) {
  const Array& x = step.in(0);
  const std::string mode = step.text("mode", "constant");
  if (mode != "constant" && mode != "edge" && mode != "wrap" && mode != "reflect")
    step.refuse(fmt::format("mode '{}' is unknown", mode));
  const auto pads = step.numbers_or(1, "pads");
  std::vector<Index> axes(x.shape.size());
  std::iota(axes.begin(), axes.end(), 0);
  if (step.maybe(3) != nullptr) axes = step.numbers(3);
  if (!pads || pads->size() != 2 * axes.size()) step.refuse("its pads are not two for each axis");
  auto shape = x.shape;
  std::vector<Index> before(x.shape.size(), 0);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto axis = static_cast<std::size_t>(step.axis(axes[i], x.rank()));
    const Index first = (*pads)[i], last = (*pads)[i + axes.size()];
    if (std::max(first, last) > step.most() || std::min(first, last) < -step.most())
      step.refuse("its pads are too long");
    before[axis] = first;
    shape[axis] += first + last;
    if (mode != "constant" && x.shape[axis] == 0 && shape[axis] > 0) step.refuse("nothing is there to repeat");
  }
  Array fill;
  if (const Array* const given = step.maybe(2)) {
    same_types(step, x, *given);
    if (given->size() != 1) step.refuse("its constant is not one number");
    fill = *given;
  } else {
    fill = zeros(x.type, {});
    if (is_floating(x.type)) fill.floats[0] = step.number("value", 0);
  }
  Array out = step.make(x.type, shape, std::max(x.lanes, fill.lanes));
  const auto strides = strides_of(x.shape);
  std::vector<Index> from(static_cast<std::size_t>(elements(shape, step.most(), "its result")), 0);
  Index inner = static_cast<Index>(from.size());
  for (std::size_t k = 0; k < shape.size() && inner > 0; ++k) {
    inner /= shape[k];
    for (std::size_t i = 0; i < from.size(); ++i) {
      const Index at = source(mode, static_cast<Index>(i) / inner % shape[k] - before[k], x.shape[k]);
      from[i] = at < 0 || from[i] < 0 ? -1 : from[i] + at * strides[k];
    }
  }
  const auto put = [&from](auto to, auto source, auto constant) {
    for (std::size_t i = 0; i < from.size(); ++i)
      to[i] = from[i] < 0 ? constant[0] : source[static_cast<std::size_t>(from[i])];
  };
  for (Index l = 0; l < out.lanes; ++l) {
    if (is_floating(x.type))
      put(out.lane(l), x.lane(l), std::as_const(fill).lane(l));
    else
      put(out.integer_lane(l), x.integer_lane(l), std::as_const(fill).integer_lane(l));
  }
  step.outputs.push_back(std::move(out));
}

void one_hot(Step& step) {
  const Array &indices = step.in(0), &values = step.in(2);
  const auto number = [&step](std::size_t input) {
    const Array& x = step.in(input);
    if (x.size() != 1) step.refuse("its depth is not one number");
    return is_floating(x.type) ? static_cast<Index>(x.floats[0]) : step.numbers(input)[0];
  };
  const Index depth = number(1);
  if (values.size() != 2 || depth < 0) step.refuse("its values are not two, or its depth is below 0");
  const Index axis = step.axis(step.integer("axis", -1), indices.rank() + 1);
  auto shape = indices.shape;
  shape.insert(shape.begin() + axis, depth);
  Array out = step.make(values.type, shape, std::max(indices.lanes, values.lanes));
  const Index inner = volume(std::span<const Index>(indices.shape).subspan(static_cast<std::size_t>(axis)));
  const auto index = [&indices](Index lane, std::size_t i) {
    return is_floating(indices.type) ? static_cast<Index>(indices.lane(lane)[i]) : indices.integer_lane(lane)[i];
  };
  for (Index l = 0; l < out.lanes; ++l)
    for (Index i = 0; i < out.size(); ++i) {
      const Index at = index(l, static_cast<std::size_t>(i / (inner * depth) * inner + i % inner));
      const std::size_t which = (at < 0 ? at + depth : at) == i / inner % depth ? 1 : 0;
      if (is_floating(values.type))
        out.lane(l)[static_cast<std::size_t>(i)] = values.lane(l)[which];
      else
        out.integer_lane(l)[static_cast<std::size_t>(i)] = values.integer_lane(l)[which];
    }
  step.outputs.push_back(std::move(out));
}

namespace {

// The numbers of the elements of `x` that are not 0, which must be the same in all lanes.
std::vector<Index> set_elements(const Step& step, const Array& x) {
  std::vector<Index> first;
  for (Index l = 0; l < x.lanes; ++l) {
    std::vector<Index> found;
    for (std::size_t i = 0; i < static_cast<std::size_t>(x.size()); ++i)
      if (is_floating(x.type) ? x.lane(l)[i] != 0 : x.integer_lane(l)[i] != 0) found.push_back(static_cast<Index>(i));
    if (l > 0 && found != first) step.refuse("the shape of its result depends on computed floats");
    first = std::move(found);
  }
  return first;
}

}  // namespace

void non_zero(Step& step) {
  const Array& x = step.in(0);
  const std::vector<Index> found = set_elements(step, x), strides = strides_of(x.shape);
  std::vector<std::int64_t> coordinates;
  for (std::size_t k = 0; k < x.shape.size(); ++k)
    for (const Index at : found) coordinates.push_back(at / strides[k] % x.shape[k]);
  step.outputs.push_back(integers(Type::i64, {x.rank(), static_cast<Index>(found.size())}, std::move(coordinates)));
}

void compress(Step& step) {
  Array x = step.in(0);
  if (step.attribute("axis") == nullptr) x.shape = {x.size()};
  const Array kept = integers(Type::i64, {}, set_elements(step, step.in(1)));
  Array where = kept;
  where.shape = {static_cast<Index>(kept.integers.size())};
  step.outputs.push_back(step.part(gather, {&x, &where}, {{"axis", step.integer("axis", 0)}}));
}

}  // namespace attest::graph
