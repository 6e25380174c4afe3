#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "graph/operators.hpp"
#include "graph/shapes.hpp"

// Operators that order the elements of an axis; each lane has its own order.
namespace attest::graph {
namespace {

// NaN is the largest number, as numpy has it.
bool above(double x, double y) { return std::isnan(x) ? !std::isnan(y) : x > y; }
bool above(std::int64_t x, std::int64_t y) { return x > y; }

// Calls f(row, numbers of its elements in their order) for the rows of all lanes along an axis.
template <class F>
void each_order(const Rows& rows, bool largest, bool last_first, F f) {
  std::vector<Index> order(static_cast<std::size_t>(rows.length));
  const auto sort = [&](const auto* row) {
    std::iota(order.begin(), order.end(), 0);
    std::ranges::sort(order, [&](Index a, Index b) {
      if (above(row[a], row[b])) return largest;
      if (above(row[b], row[a])) return !largest;
      return last_first ? a > b : a < b;
    });
  };
  for (Index row = 0; row < rows.count * rows.x.lanes; ++row) {
    if (is_floating(rows.x.type))
      sort(rows.x.floats.data() + row * rows.length);
    else
      sort(rows.x.integers.data() + row * rows.length);
    f(row, order);
  }
}

// A result with `length` elements in place of the axis that the rows run along.
Array along(const Step& step, const Rows& rows, Type type, Index length) {
  std::vector<Index> shape;
  for (std::size_t k = 0; k + 1 < rows.x.shape.size(); ++k) shape.push_back(rows.x.shape[k]);
  shape.push_back(length);
  return step.make(type, std::move(shape), rows.x.lanes);
}

Array put_back(const Step& step, const Rows& rows, Array x) {
  Rows other = rows;
  other.x = std::move(x);
  return restored(step, other);
}

void extreme_index(Step& step, bool largest) {
  const Index axis = step.axis(step.integer("axis", 0), step.in(0).rank());
  const Rows rows = rows_of(step, step.in(0), std::vector<Index>{axis});
  if (rows.length == 0) step.refuse("its axis has no elements");
  Array out = along(step, rows, Type::i64, 1);
  each_order(rows, largest, step.integer("select_last_index", 0) != 0, [&](Index row, const std::vector<Index>& order) {
    out.integers[static_cast<std::size_t>(row)] = order[0];
  });
  out = put_back(step, rows, std::move(out));
  if (step.integer("keepdims", 1) == 0) out.shape.erase(out.shape.begin() + axis);
  step.outputs.push_back(std::move(out));
}

}  // namespace

void largest_index(Step& step) { extreme_index(step, true); }
void least_index(Step& step) { extreme_index(step, false); }

void top(Step& step) {
  const auto count = step.maybe(1) == nullptr ? std::vector<Index>{step.integer("k", -1)} : step.numbers(1);
  const Index axis = step.axis(step.integer("axis", -1), step.in(0).rank());
  const Rows rows = rows_of(step, step.in(0), std::vector<Index>{axis});
  if (count.size() != 1 || count[0] < 0 || count[0] > rows.length) step.refuse("its axis has fewer elements");
  if (step.integer("sorted", 1) == 0) step.refuse("an order that is open: sorted is 0");
  Array values = along(step, rows, rows.x.type, count[0]), places = along(step, rows, Type::i64, count[0]);
  each_order(rows, step.integer("largest", 1) != 0, false, [&](Index row, const std::vector<Index>& order) {
    for (Index i = 0; i < count[0]; ++i) {
      const auto to = static_cast<std::size_t>(row * count[0] + i);
      const auto from = static_cast<std::size_t>(row * rows.length + order[static_cast<std::size_t>(i)]);
      places.integers[to] = order[static_cast<std::size_t>(i)];
      if (is_floating(rows.x.type))
        values.floats[to] = rows.x.floats[from];
      else
        values.integers[to] = rows.x.integers[from];
    }
  });
  step.outputs.push_back(put_back(step, rows, std::move(values)));
  step.outputs.push_back(put_back(step, rows, std::move(places)));
}

}  // namespace attest::graph
