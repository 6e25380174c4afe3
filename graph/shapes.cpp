#include "graph/shapes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

namespace attest::graph {

std::vector<Index> strides_of(std::span<const Index> shape) {
  std::vector<Index> strides(shape.size());
  Index step = 1;
  for (std::size_t k = shape.size(); k-- > 0;) {
    strides[k] = step;
    step *= shape[k];
  }
  return strides;
}

std::vector<Index> broadcast(const Step& step, std::span<const Index> a, std::span<const Index> b) {
  std::vector<Index> shape(std::max(a.size(), b.size()));
  for (std::size_t k = 0; k < shape.size(); ++k) {  // from the last axis
    const Index x = k < a.size() ? a[a.size() - 1 - k] : 1, y = k < b.size() ? b[b.size() - 1 - k] : 1;
    if (x != y && x != 1 && y != 1)
      step.refuse(fmt::format("{} and {} do not broadcast", shape_text(a), shape_text(b)));
    shape[shape.size() - 1 - k] = x == 1 ? y : x;
  }
  return shape;
}

std::vector<Index> broadcast_strides(std::span<const Index> from, std::span<const Index> to) {
  const auto own = strides_of(from);
  std::vector<Index> strides(to.size(), 0);
  const std::size_t missing = to.size() - from.size();
  for (std::size_t k = 0; k < from.size(); ++k)
    if (from[k] != 1) strides[missing + k] = own[k];
  return strides;
}

namespace {

template <class T>
void copy_strided(const T* from, std::span<const Index> shape, std::span<const Index> strides, T* to) {
  if (shape.empty()) {
    *to = *from;
    return;
  }
  const std::size_t last = shape.size() - 1;
  const Index length = shape[last], step = strides[last];
  std::vector<Index> at(last, 0);
  for (;;) {
    for (Index i = 0; i < length; ++i) to[i] = from[i * step];
    to += length;
    std::size_t k = last;
    for (;;) {
      if (k == 0) return;
      --k;
      from += strides[k];
      if (++at[k] < shape[k]) break;
      from -= strides[k] * shape[k];
      at[k] = 0;
    }
  }
}

}  // namespace

Array gathered(const Step& step, const Array& x, std::vector<Index> shape, Index offset,
               std::span<const Index> strides) {
  Array out = step.make(x.type, std::move(shape), x.lanes);
  if (std::find(out.shape.begin(), out.shape.end(), 0) != out.shape.end()) return out;
  for (Index l = 0; l < x.lanes; ++l) {
    if (is_floating(x.type))
      copy_strided(x.lane(l).data() + offset, out.shape, strides, out.lane(l).data());
    else
      copy_strided(x.integer_lane(l).data() + offset, out.shape, strides, out.integer_lane(l).data());
  }
  return out;
}

Array section(const Step& step, const Array& x, std::size_t axis, Index from, Index length) {
  if (axis >= x.shape.size() || from < 0 || length < 0 || from + length > x.shape[axis])
    step.refuse(fmt::format("elements {} to {} along axis {} of {}", from, from + length, axis, shape_text(x.shape)));
  const auto strides = strides_of(x.shape);
  auto shape = x.shape;
  shape[axis] = length;
  return gathered(step, x, std::move(shape), from * strides[axis], strides);
}

Array broadcast_to(const Step& step, const Array& x, std::vector<Index> shape) {
  const auto strides = broadcast_strides(x.shape, shape);
  return gathered(step, x, std::move(shape), 0, strides);
}

Array transposed(const Step& step, const Array& x, std::span<const Index> order) {
  const auto own = strides_of(x.shape);
  std::vector<Index> shape, strides;
  for (const Index axis : order) {
    shape.push_back(x.shape[static_cast<std::size_t>(axis)]);
    strides.push_back(own[static_cast<std::size_t>(axis)]);
  }
  return gathered(step, x, std::move(shape), 0, strides);
}

Array in_heads(const Step& step, const Array& x, Index heads) {
  if (x.rank() != 3 || heads < 1 || x.shape[2] % heads != 0)
    step.refuse(fmt::format("{} of {} heads", shape_text(x.shape), heads));
  Array apart = x;
  apart.shape = {x.shape[0], x.shape[1], heads, x.shape[2] / heads};
  return transposed(step, apart, std::vector<Index>{0, 2, 1, 3});
}

Array out_of_heads(const Step& step, const Array& x) {
  Array out = transposed(step, x, std::vector<Index>{0, 2, 1, 3});
  out.shape = {out.shape[0], out.shape[1], out.shape[2] * out.shape[3]};
  return out;
}

Rows rows_of(const Step& step, const Array& x, std::span<const Index> axes) {
  Rows rows;
  for (Index k = 0; k < x.rank(); ++k) {
    if (std::find(axes.begin(), axes.end(), k) != axes.end()) continue;
    rows.order.push_back(k);
    rows.count *= x.shape[static_cast<std::size_t>(k)];
  }
  for (Index k = 0; k < x.rank(); ++k) {
    if (std::find(axes.begin(), axes.end(), k) == axes.end()) continue;
    rows.order.push_back(k);
    rows.length *= x.shape[static_cast<std::size_t>(k)];
  }
  rows.x = transposed(step, x, rows.order);
  return rows;
}

Array restored(const Step& step, const Rows& rows) {
  std::vector<Index> back(rows.order.size());
  for (std::size_t k = 0; k < rows.order.size(); ++k)
    back[static_cast<std::size_t>(rows.order[k])] = static_cast<Index>(k);
  return transposed(step, rows.x, back);
}

}  // namespace attest::graph
