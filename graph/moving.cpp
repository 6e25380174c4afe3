#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <set>
#include <utility>

#include "graph/operators.hpp"
#include "graph/shapes.hpp"

namespace attest::graph {
namespace {

// `axes` counted from the front, each once.
std::vector<Index> each_once(const Step& step, std::vector<Index> axes, Index rank) {
  for (Index& one : axes) one = step.axis(one, rank);
  if (std::set<Index>(axes.begin(), axes.end()).size() < axes.size()) step.refuse("an axis is named twice");
  return axes;
}

void give_as(Step& step, std::vector<Index> shape) {
  Array out = step.in(0);
  out.shape = std::move(shape);
  step.outputs.push_back(std::move(out));
}

}  // namespace

void identity(Step& step) { step.outputs.push_back(step.any(0)); }

void transpose(Step& step) {
  const Array& x = step.in(0);
  std::vector<Index> order(x.shape.size());
  std::iota(order.rbegin(), order.rend(), 0);
  if (const auto stated = step.integers("perm")) {
    order = each_once(step, *stated, x.rank());
    if (order.size() != x.shape.size())
      step.refuse(fmt::format("its perm has {} axes, the tensor {}", order.size(), x.rank()));
  }
  step.outputs.push_back(transposed(step, x, order));
}

void reshape(Step& step) {
  const Array& x = step.in(0);
  auto shape = step.numbers(1);
  const bool zero_is_zero = step.integer("allowzero", 0) != 0;
  std::optional<std::size_t> open;
  for (std::size_t k = 0; k < shape.size(); ++k) {
    if (shape[k] == 0 && !zero_is_zero) {
      if (k >= x.shape.size()) step.refuse(fmt::format("it keeps axis {} of a tensor of {} axes", k, x.rank()));
      shape[k] = x.shape[k];
    } else if (shape[k] == -1) {
      if (open) step.refuse("two axes of the new shape are -1");
      open = k;
    } else if (shape[k] < 0) {
      step.refuse(fmt::format("the new shape has an axis of length {}", shape[k]));
    }
  }
  const auto wanted = shape_text(shape);
  if (open) {
    shape[*open] = 1;
    const Index others = elements(shape, step.most(), "the result of Reshape");
    if (others == 0 || x.size() % others != 0) step.refuse(fmt::format("{} elements do not fit {}", x.size(), wanted));
    shape[*open] = x.size() / others;
  }
  if (elements(shape, step.most(), "the result of Reshape") != x.size())
    step.refuse(fmt::format("{} does not fit {}", shape_text(x.shape), wanted));
  give_as(step, std::move(shape));
}

void flatten(Step& step) {
  const Array& x = step.in(0);
  Index at = step.integer("axis", 1);
  if (at < -x.rank() || at > x.rank()) step.refuse(fmt::format("axis {} of a tensor of {} axes", at, x.rank()));
  if (at < 0) at += x.rank();
  const auto all = std::span<const Index>(x.shape);
  give_as(step, {volume(all.first(static_cast<std::size_t>(at))), volume(all.subspan(static_cast<std::size_t>(at)))});
}

void squeeze(Step& step) {
  const Array& x = step.in(0);
  const auto stated = step.numbers_or(1, "axes");
  const auto axes = each_once(step, stated.value_or(std::vector<Index>{}), x.rank());
  std::vector<Index> shape;
  for (Index k = 0; k < x.rank(); ++k) {
    const Index length = x.shape[static_cast<std::size_t>(k)];
    const bool named = std::find(axes.begin(), axes.end(), k) != axes.end();
    if (named && length != 1) step.refuse(fmt::format("axis {} has length {}", k, length));
    if (!(stated ? named : length == 1)) shape.push_back(length);
  }
  give_as(step, std::move(shape));
}

void unsqueeze(Step& step) {
  const Array& x = step.in(0);
  const auto stated = step.numbers_or(1, "axes");
  if (!stated) step.refuse("it has no axes");
  const auto axes = each_once(step, *stated, x.rank() + static_cast<Index>(stated->size()));
  auto shape = x.shape;
  for (const Index one : std::set<Index>(axes.begin(), axes.end())) shape.insert(shape.begin() + one, 1);
  give_as(step, std::move(shape));
}

void concat(Step& step) {
  const Array& first = step.in(0);
  if (step.attribute("axis") == nullptr) step.refuse("it has no axis");
  const auto axis = static_cast<std::size_t>(step.axis(step.integer("axis", 0), first.rank()));
  auto shape = first.shape;
  Index lanes = first.lanes;
  for (std::size_t i = 1; i < step.input_count(); ++i) {
    const Array& next = step.in(i);
    auto as_first = next.shape;
    if (next.rank() == first.rank()) as_first[axis] = first.shape[axis];
    if (as_first != first.shape || next.type != first.type)
      step.refuse(fmt::format("{} {} and {} {} do not join along axis {}", name(first.type), shape_text(first.shape),
                              name(next.type), shape_text(next.shape), axis));
    shape[axis] += next.shape[axis];
    lanes = std::max(lanes, next.lanes);
  }
  Array out = step.make(first.type, shape, lanes);
  const Index outer = volume(std::span<const Index>(shape).first(axis));
  const Index row = volume(std::span<const Index>(shape).subspan(axis));
  const auto put = [outer, row](auto from, auto to, Index at, Index length) {
    for (Index i = 0; i < outer; ++i) std::copy_n(from.begin() + i * length, length, to.begin() + i * row + at);
  };
  Index at = 0;
  for (std::size_t i = 0; i < step.input_count(); ++i) {
    const Array& next = step.in(i);
    const Index length = volume(std::span<const Index>(next.shape).subspan(axis));
    for (Index l = 0; l < lanes; ++l) {
      if (is_floating(out.type))
        put(next.lane(l), out.lane(l), at, length);
      else
        put(next.integer_lane(l), out.integer_lane(l), at, length);
    }
    at += length;
  }
  step.outputs.push_back(std::move(out));
}

void split(Step& step) {
  const Array& x = step.in(0);
  const Index axis = step.axis(step.integer("axis", 0), x.rank());
  const Index whole = x.shape[static_cast<std::size_t>(axis)];
  const auto parts = static_cast<Index>(step.output_count());
  auto lengths = step.numbers_or(1, "split");
  if (!lengths) {
    // Equal parts, the last one shorter.
    const Index each = (whole + parts - 1) / parts;
    lengths.emplace();
    for (Index i = 0; i < parts; ++i) lengths->push_back(std::clamp<Index>(whole - i * each, 0, each));
  }
  const bool negative = std::any_of(lengths->begin(), lengths->end(), [](Index one) { return one < 0; });
  Index sum = 0;
  for (const Index one : *lengths) sum = negative || one > whole ? -1 : sum + one;
  if (static_cast<Index>(lengths->size()) != parts || sum != whole)
    step.refuse(fmt::format("an axis of length {} is split into {}", whole, shape_text(*lengths)));
  Index from = 0;
  for (const Index length : *lengths) {
    step.outputs.push_back(section(step, x, static_cast<std::size_t>(axis), from, length));
    from += length;
  }
}

void slice(Step& step) {
  const Array& x = step.in(0);
  const auto starts = step.numbers_or(1, "starts"), ends = step.numbers_or(2, "ends");
  if (!starts || !ends || starts->size() != ends->size()) step.refuse("its starts and ends do not go together");
  std::vector<Index> axes(starts->size());
  std::iota(axes.begin(), axes.end(), 0);
  if (const auto stated = step.numbers_or(3, "axes")) axes = *stated;
  axes = each_once(step, std::move(axes), x.rank());
  std::vector<Index> steps(starts->size(), 1);
  if (step.maybe(4) != nullptr) steps = step.numbers(4);
  if (axes.size() != starts->size() || steps.size() != starts->size())
    step.refuse("its starts, axes and steps do not go together");

  auto shape = x.shape, strides = strides_of(x.shape);
  Index offset = 0;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto axis = static_cast<std::size_t>(axes[i]);
    const Index length = x.shape[axis], by = steps[i];
    if (by == 0) step.refuse("a step is 0");
    const auto place = [length](Index at) { return at < 0 ? at + length : at; };
    const bool back = by < 0;
    const Index from = std::clamp<Index>(place((*starts)[i]), back ? -1 : 0, back ? length - 1 : length);
    const Index to = std::clamp<Index>(place((*ends)[i]), back ? -1 : 0, back ? length - 1 : length);
    const Index span = back ? from - to : to - from;
    // One more than the steps that fit before the end; by may be the least integer, which has no negative.
    const Index count = span <= 0 ? 0 : (span - 1) / (back ? (by < -length ? length + 1 : -by) : by) + 1;
    shape[axis] = count;
    if (count > 0) offset += from * strides[axis];
    strides[axis] *= count > 1 ? by : 0;
  }
  step.outputs.push_back(gathered(step, x, std::move(shape), offset, strides));
}

void expand(Step& step) {
  const Array& x = step.in(0);
  const auto wanted = step.numbers(1);
  step.outputs.push_back(broadcast_to(step, x, broadcast(step, x.shape, wanted)));
}

void trilu(Step& step) {
  Array out = step.in(0);
  if (out.rank() < 2) step.refuse("it needs two axes");
  const bool upper = step.integer("upper", 1) != 0;
  if (step.maybe(1) != nullptr && step.numbers(1).size() != 1) step.refuse("its diagonal is not one number");
  const Index diagonal = step.maybe(1) == nullptr ? 0 : step.numbers(1).front();
  const Index rows = out.shape[out.shape.size() - 2], columns = out.shape.back();
  // Far diagonals keep all or nothing; clamped, no difference overflows.
  const Index k = std::clamp<Index>(diagonal, -rows - 1, columns + 1);
  const auto clear = [=](auto& all) {
    Index flat = 0;
    for (auto& v : all) {
      const Index column = flat % columns, row = flat / columns % rows;
      if (upper ? column - row < k : column - row > k) v = 0;
      ++flat;
    }
  };
  clear(out.floats);
  clear(out.integers);
  step.outputs.push_back(std::move(out));
}

void tile(Step& step) {
  const Array& x = step.in(0);
  const std::vector<Index> repeats = step.numbers(1);
  if (std::ssize(repeats) != x.rank()) step.refuse(fmt::format("{} repeats of {} axes", repeats.size(), x.rank()));
  // [1, length] broadcast to [repeat, length], axis by axis.
  std::vector<Index> apart, wide, whole;
  for (std::size_t k = 0; k < repeats.size(); ++k) {
    if (repeats[k] < 0) step.refuse("an axis is repeated less than 0 times");
    apart.insert(apart.end(), {1, x.shape[k]});
    wide.insert(wide.end(), {repeats[k], x.shape[k]});
    whole.push_back(x.shape[k] != 0 && repeats[k] > step.most() / x.shape[k] ? step.most() + 1
                                                                             : repeats[k] * x.shape[k]);
  }
  elements(whole, step.most() / x.lanes, "its result");
  Array flat = x;
  flat.shape = std::move(apart);
  Array out = broadcast_to(step, flat, std::move(wide));
  out.shape = std::move(whole);
  step.outputs.push_back(std::move(out));
}

void dropout(Step& step) {
  if (step.maybe(2) != nullptr)
    for (const std::int64_t training : step.in(2).integers)
      if (training != 0) step.refuse("training is not evaluated");
  step.outputs.push_back(step.in(0));
  Array kept = step.make(Type::boolean, step.in(0).shape, 1);
  std::ranges::fill(kept.integers, 1);
  step.outputs.push_back(std::move(kept));
}

}  // namespace attest::graph
