#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "graph/loops.hpp"
#include "graph/operators.hpp"
#include "graph/wire.hpp"
#include "graph/zip.hpp"

namespace attest::graph {
namespace {

// f(number of a row, position in the row, element) for all elements of all lanes.
template <class F>
void each_element(Rows& rows, F f) {
  double* next = rows.x.floats.data();
  const Index all = rows.count * rows.x.lanes;
  for (Index row = 0; row < all; ++row)
    for (Index i = 0; i < rows.length; ++i, ++next)
      f(static_cast<std::size_t>(row), static_cast<std::size_t>(i), *next);
}

// One number a row: [rows] in each lane. f(first element, length).
template <class F>
Array by_row(const Step& step, const Rows& rows, F f) {
  Array out = step.make(rows.x.type, {rows.count}, rows.x.lanes);
  for (std::size_t row = 0; row < out.floats.size(); ++row)
    out.floats[row] = f(rows.x.floats.data() + static_cast<Index>(row) * rows.length, rows.length);
  return out;
}

// Sums of rows, with the errors of sums but not yet stored.
Array sums_of(Step& step, const Rows& rows) {
  Array sums = by_row(step, rows, sum_of);
  std::vector<double> squares;
  for (Index row = 0; row < rows.count; ++row)
    squares.push_back(sum_of_squares(rows.x.lane(0).data() + row * rows.length, rows.length));
  step.sum(sums, rows.length, squares, [&rows](Index lane, Index sum, std::span<double> to) {
    std::copy_n(rows.x.lane(lane).begin() + sum * rows.length, rows.length, to.begin());
  });
  return sums;
}

double largest(const double* x, Index count) noexcept {
  double best = -std::numeric_limits<double>::infinity();
  for (Index i = 0; i < count; ++i) best = std::isnan(x[i]) || x[i] > best ? x[i] : best;
  return best;
}
double least(const double* x, Index count) noexcept {
  double best = std::numeric_limits<double>::infinity();
  for (Index i = 0; i < count; ++i) best = std::isnan(x[i]) || x[i] < best ? x[i] : best;
  return best;
}

// exp(x - m) in place of x, each part stored; m: one number a row, in as many lanes as x.
void exponentials_below(Step& step, Rows& rows, const Array& m) {
  each_element(rows, [&m](std::size_t row, std::size_t /*i*/, double& x) { x -= m.floats[row]; });
  step.round(rows.x);
  for (double& x : rows.x.floats) x = std::exp(x);
  step.function(rows.x, 2);
  step.round(rows.x);
}

void floats_needed(const Step& step) {
  if (!is_floating(step.in(0).type)) step.refuse(fmt::format("{} is no floating-point type", name(step.in(0).type)));
}

struct Reduction {
  std::vector<Index> axes;   // from the front
  std::vector<Index> shape;  // the result's
};

Reduction reduction(const Step& step) {
  const Array& x = step.in(0);
  Reduction r;
  auto axes = step.numbers_or(1, "axes").value_or(std::vector<Index>{});
  if (axes.empty() && step.integer("noop_with_empty_axes", 0) == 0) {
    axes.resize(x.shape.size());
    std::iota(axes.begin(), axes.end(), 0);
  }
  for (const Index one : axes) r.axes.push_back(step.axis(one, x.rank()));
  const bool keeps = step.integer("keepdims", 1) != 0;
  for (Index k = 0; k < x.rank(); ++k) {
    const bool goes = std::find(r.axes.begin(), r.axes.end(), k) != r.axes.end();
    if (!goes) r.shape.push_back(x.shape[static_cast<std::size_t>(k)]);
    if (goes && keeps) r.shape.push_back(1);
  }
  return r;
}

// f(rows) gives one number a row.
template <class F>
void reduce(Step& step, F f) {
  floats_needed(step);
  const Reduction r = reduction(step);
  Rows rows = rows_of(step, step.in(0), r.axes);
  Array out = f(rows);
  out.shape = r.shape;
  step.outputs.push_back(std::move(out));
}

// f(first element, length) of integers.
template <class F>
void reduce_integers(Step& step, F f) {
  const Array& x = step.in(0);
  const Reduction r = reduction(step);
  const Rows rows = rows_of(step, x, r.axes);
  Array out = step.make(x.type, {rows.count}, x.lanes);
  for (std::size_t row = 0; row < out.integers.size(); ++row) {
    const std::uint64_t bits = f(rows.x.integers.data() + static_cast<Index>(row) * rows.length, rows.length);
    out.integers[row] = wrapped(x.type, bits);
  }
  out.shape = r.shape;
  step.outputs.push_back(std::move(out));
}

bool holds_integers(const Step& step) {
  const Type type = step.in(0).type;
  if (type == Type::boolean) step.refuse("booleans are not reduced");
  return !is_floating(type);
}

Array stored(Step& step, Array x) {
  step.round(x);
  return x;
}

template <class F>
void in_place(Array& x, F f) {
  std::transform(x.floats.begin(), x.floats.end(), x.floats.begin(), f);
}

}  // namespace

void reduce_sum(Step& step) {
  if (holds_integers(step)) {
    reduce_integers(step, [](const std::int64_t* x, Index count) {
      return std::accumulate(x, x + count, std::uint64_t{0},
                             [](std::uint64_t sum, std::int64_t v) { return sum + static_cast<std::uint64_t>(v); });
    });
    return;
  }
  reduce(step, [&step](Rows& rows) { return stored(step, sums_of(step, rows)); });
}

void reduce_mean(Step& step) {
  reduce(step, [&step](Rows& rows) {
    Array sums = sums_of(step, rows);
    in_place(sums, [n = static_cast<double>(rows.length)](double s) { return s / n; });
    return stored(step, std::move(sums));
  });
}

void reduce_max(Step& step) {
  if (const Type type = step.in(0).type; !is_floating(type)) {
    reduce_integers(step, [least = range_of(type).first](const std::int64_t* x, Index count) {
      return static_cast<std::uint64_t>(count > 0 ? *std::max_element(x, x + count) : least);
    });
    return;
  }
  reduce(step, [&step](Rows& rows) { return by_row(step, rows, largest); });
}

void reduce_min(Step& step) {
  if (const Type type = step.in(0).type; !is_floating(type)) {
    reduce_integers(step, [most = range_of(type).second](const std::int64_t* x, Index count) {
      return static_cast<std::uint64_t>(count > 0 ? *std::min_element(x, x + count) : most);
    });
    return;
  }
  reduce(step, [&step](Rows& rows) { return by_row(step, rows, least); });
}

void reduce_product(Step& step) {
  if (holds_integers(step)) {
    reduce_integers(step, [](const std::int64_t* x, Index count) {
      return std::accumulate(x, x + count, std::uint64_t{1},
                             [](std::uint64_t all, std::int64_t v) { return all * static_cast<std::uint64_t>(v); });
    });
    return;
  }
  // One factor after the other, each product stored.
  reduce(step, [&step](Rows& rows) {
    step.spread(rows.x);
    Array all = by_row(step, rows, [](const double* x, Index count) { return count > 0 ? x[0] : 1.0; });
    for (Index i = 1; i < rows.length; ++i) {
      for (std::size_t row = 0; row < all.floats.size(); ++row)
        all.floats[row] *= rows.x.floats[row * static_cast<std::size_t>(rows.length) + static_cast<std::size_t>(i)];
      step.round(all);
    }
    return all;
  });
}

void reduce_l1(Step& step) {
  reduce(step, [&step](Rows& rows) {
    in_place(rows.x, [](double x) { return std::fabs(x); });
    return stored(step, sums_of(step, rows));
  });
}

void reduce_l2(Step& step) {
  reduce(step, [&step](Rows& rows) {
    in_place(rows.x, [](double x) { return x * x; });
    step.round(rows.x);
    Array sums = stored(step, sums_of(step, rows));
    in_place(sums, [](double s) { return std::sqrt(s); });
    return stored(step, std::move(sums));
  });
}

void reduce_sum_square(Step& step) {
  reduce(step, [&step](Rows& rows) {
    in_place(rows.x, [](double x) { return x * x; });
    step.round(rows.x);
    return stored(step, sums_of(step, rows));
  });
}

void reduce_log_sum(Step& step) {
  reduce(step, [&step](Rows& rows) {
    Array sums = stored(step, sums_of(step, rows));
    in_place(sums, [](double s) { return std::log(s); });
    step.function(sums, 2);
    return stored(step, std::move(sums));
  });
}

void reduce_log_sum_exp(Step& step) {
  reduce(step, [&step](Rows& rows) {
    step.spread(rows.x);
    const Array most = by_row(step, rows, largest);
    exponentials_below(step, rows, most);
    Array sums = sums_of(step, rows);
    in_place(sums, [](double s) { return std::log(s); });
    step.function(sums, 2);
    step.round(sums);
    for (std::size_t row = 0; row < sums.floats.size(); ++row) sums.floats[row] += most.floats[row];
    return stored(step, std::move(sums));
  });
}

void cumulative_sum(Step& step) {
  const Array& x = step.in(0);
  if (step.in(1).size() != 1) step.refuse("its axis is not one number");
  const std::vector<Index> axes{step.axis(step.numbers(1)[0], x.rank())};
  Rows rows = rows_of(step, x, axes);
  const bool back = step.integer("reverse", 0) != 0, exclusive = step.integer("exclusive", 0) != 0;
  const auto length = static_cast<std::size_t>(rows.length);
  // Terms are added one after the other, each sum stored.
  if (is_floating(x.type)) step.spread(rows.x);
  Array sum = step.make(x.type, {rows.count}, rows.x.lanes);
  const auto add = [length](auto& sums, auto& all, std::size_t i, bool is_exclusive, auto store) {
    const auto before = sums;
    for (std::size_t row = 0; row < sums.size(); ++row) sums[row] += all[row * length + i];
    store();
    for (std::size_t row = 0; row < sums.size(); ++row) all[row * length + i] = (is_exclusive ? before : sums)[row];
  };
  for (std::size_t j = 0; j < length; ++j) {
    const std::size_t i = back ? length - 1 - j : j;
    if (is_floating(x.type))
      add(sum.floats, rows.x.floats, i, exclusive, [&] { step.round(sum); });
    else
      add(sum.integers, rows.x.integers, i, exclusive, [&] {
        for (std::int64_t& v : sum.integers) v = wrapped(x.type, bits_of(v));
      });
  }
  step.outputs.push_back(restored(step, rows));
}

void softmax(Step& step) {
  floats_needed(step);
  const Array& x = step.in(0);
  if (x.rank() == 0) step.refuse("it needs an axis");
  // Before version 13 all axes from the named one on were one.
  const bool together = step.opset() < 13;
  const Index axis = step.axis(step.integer("axis", together ? 1 : -1), x.rank());
  std::vector<Index> axes{axis};
  for (Index k = axis + 1; together && k < x.rank(); ++k) axes.push_back(k);
  Rows rows = rows_of(step, x, axes);
  step.spread(rows.x);
  exponentials_below(step, rows, by_row(step, rows, largest));
  const Array sums = sums_of(step, rows);
  each_element(rows, [&sums](std::size_t row, std::size_t /*i*/, double& e) { e /= sums.floats[row]; });
  step.function(rows.x, 1);
  step.round(rows.x);
  step.outputs.push_back(restored(step, rows));
}

void log_softmax(Step& step) {
  floats_needed(step);
  const Array& x = step.in(0);
  if (x.rank() == 0) step.refuse("it needs an axis");
  if (step.opset() < 13) step.refuse("versions before 13 are not evaluated");
  const std::vector<Index> axes{step.axis(step.integer("axis", -1), x.rank())};
  Rows rows = rows_of(step, x, axes);
  step.spread(rows.x);
  const Array most = by_row(step, rows, largest);
  Rows powers = rows;
  exponentials_below(step, powers, most);
  Array sums = sums_of(step, powers);
  in_place(sums, [](double s) { return std::log(s); });
  step.function(sums, 2);
  step.round(sums);
  each_element(rows, [&most](std::size_t row, std::size_t /*i*/, double& v) { v -= most.floats[row]; });
  step.round(rows.x);
  each_element(rows, [&sums](std::size_t row, std::size_t /*i*/, double& v) { v -= sums.floats[row]; });
  step.round(rows.x);
  step.outputs.push_back(restored(step, rows));
}

namespace {

// LayerNormalization, and without the mean RMSNormalization.
void normalise(Step& step, bool centred) {
  floats_needed(step);
  const Array& x = step.in(0);
  const Index axis = step.axis(step.integer("axis", -1), x.rank());
  std::vector<Index> axes(static_cast<std::size_t>(x.rank() - axis));
  std::iota(axes.begin(), axes.end(), axis);
  const double epsilon = step.number("epsilon", static_cast<double>(1e-5f));

  Rows rows = rows_of(step, x, axes);
  step.spread(rows.x);
  const auto n = static_cast<double>(rows.length);
  const auto mean_of = [&step, n](const Rows& of) {
    Array sums = sums_of(step, of);
    in_place(sums, [n](double s) { return s / n; });
    return stored(step, std::move(sums));
  };
  Array mean;
  if (centred) {
    mean = mean_of(rows);
    each_element(rows, [&mean](std::size_t row, std::size_t /*i*/, double& v) { v -= mean.floats[row]; });
    step.round(rows.x);
  }
  Rows squares = rows;
  in_place(squares.x, [](double d) { return d * d; });
  step.round(squares.x);
  Array scale = mean_of(squares);
  in_place(scale, [epsilon](double v) { return v + epsilon; });
  step.round(scale);
  in_place(scale, [](double v) { return 1 / std::sqrt(v); });
  step.function(scale, 2);
  each_element(rows, [&scale](std::size_t row, std::size_t /*i*/, double& d) { d *= scale.floats[row]; });
  step.round(rows.x);

  // gamma and beta broadcast to the axes that are normalised.
  const std::vector<Index> tail(x.shape.begin() + static_cast<std::ptrdiff_t>(axis), x.shape.end());
  const auto per_row = [&](std::size_t index) {
    const Array& given = step.in(index);
    if (given.type != x.type || broadcast(step, given.shape, tail) != tail)
      step.refuse(fmt::format("{} {} is no scale or bias of {} {}", name(given.type), shape_text(given.shape),
                              name(x.type), shape_text(tail)));
    return broadcast_to(step, given, tail);
  };
  const auto with = [&rows](const Array& given, auto f) {
    const auto in_lane = static_cast<std::size_t>(rows.count);
    each_element(rows, [&](std::size_t row, std::size_t i, double& v) {
      v = f(v, given.lane(static_cast<Index>(row / in_lane))[i]);
    });
  };
  with(per_row(1), [](double v, double gamma) { return v * gamma; });
  step.round(rows.x);
  if (step.maybe(2) != nullptr) {
    with(per_row(2), [](double v, double beta) { return v + beta; });
    step.round(rows.x);
  }
  step.outputs.push_back(restored(step, rows));
  // Mean and scale have one number a row, in the type that they are computed in.
  if (step.output_count() < 2) return;
  step.round(scale);
  for (Array* const one : {&mean, &scale}) {
    one->type = type_of(step.integer("stash_type", data_type(Type::f32)), "its mean");
    one->shape = x.shape;
    std::fill(one->shape.begin() + static_cast<std::ptrdiff_t>(axis), one->shape.end(), 1);
    step.outputs.push_back(std::move(*one));
  }
}

}  // namespace

void layer_normalization(Step& step) { normalise(step, true); }
void rms_normalization(Step& step) { normalise(step, false); }

}  // namespace attest::graph
