#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "graph/operators.hpp"

namespace attest::graph {
namespace {

// Tells whether start + i delta is a number of the type, for each i: then it does not matter how it is computed.
bool is_exact(const Array& range, double start, double delta) {
  const Format format = format_of(range.type);
  for (std::size_t i = 0; i < range.floats.size(); ++i) {
    const double value = range.floats[i];
    const double product = static_cast<double>(i) * delta;
    const bool product_exact = std::fma(static_cast<double>(i), delta, -product) == 0;
    if (round_to(format, value) != value || !product_exact || value - product != start || value - start != product)
      return false;
  }
  return true;
}

Array scalar_index(Index value) { return integers(Type::i64, {}, {value}); }

}  // namespace

void shape(Step& step) {
  const Array& x = step.in(0);
  const auto end_of = [&x](Index at) { return std::clamp<Index>(at < 0 ? at + x.rank() : at, 0, x.rank()); };
  const Index from = end_of(step.integer("start", 0)), to = end_of(step.integer("end", x.rank()));
  std::vector<Index> lengths;
  for (Index k = from; k < to; ++k) lengths.push_back(x.shape[static_cast<std::size_t>(k)]);
  const auto count = static_cast<Index>(lengths.size());
  step.outputs.push_back(integers(Type::i64, {count}, std::move(lengths)));
}

void size(Step& step) { step.outputs.push_back(scalar_index(step.in(0).size())); }

void constant(Step& step) {
  if (const Attribute* const value = step.attribute("value")) {
    if (!std::holds_alternative<Stored>(*value)) step.refuse("its value is no tensor");
    step.outputs.push_back(std::get<Stored>(*value).array());
  } else if (step.attribute("value_float") != nullptr) {
    step.outputs.push_back(floats(Type::f32, {}, {step.number("value_float", 0)}));
  } else if (step.attribute("value_int") != nullptr) {
    step.outputs.push_back(scalar_index(step.integer("value_int", 0)));
  } else if (auto list = step.integers("value_ints")) {
    const auto count = static_cast<Index>(list->size());
    step.outputs.push_back(integers(Type::i64, {count}, std::move(*list)));
  } else if (const Attribute* const many = step.attribute("value_floats");
             many != nullptr && std::holds_alternative<std::vector<double>>(*many)) {
    const auto& values = std::get<std::vector<double>>(*many);
    step.outputs.push_back(floats(Type::f32, {static_cast<Index>(values.size())}, values));
  } else {
    step.refuse("its value is neither numbers nor a tensor");
  }
}

void constant_of_shape(Step& step) {
  Array value = floats(Type::f32, {1}, {0});
  if (const Attribute* const stated = step.attribute("value")) {
    if (!std::holds_alternative<Stored>(*stated) || std::get<Stored>(*stated).size() != 1)
      step.refuse("its value is no tensor of one element");
    value = std::get<Stored>(*stated).array();
  }
  Array out = step.make(value.type, step.numbers(0), 1);
  if (is_floating(value.type))
    std::fill(out.floats.begin(), out.floats.end(), value.floats.front());
  else
    std::fill(out.integers.begin(), out.integers.end(), value.integers.front());
  step.outputs.push_back(std::move(out));
}

void range(Step& step) {
  const Array& start = step.in(0);
  for (std::size_t i = 0; i < 3; ++i) {
    const Array& end = step.in(i);
    if (end.size() != 1 || end.type != start.type)
      step.refuse("start, limit and delta are not three numbers of one type");
    if (end.lanes > 1) step.refuse("the shape of its result depends on computed floats");
  }
  const auto number = [&step](std::size_t i) {
    const Array& x = step.in(i);
    return is_floating(x.type) ? x.floats.front() : static_cast<double>(x.integers.front());
  };
  const double count = std::ceil((number(1) - number(0)) / number(2));
  if (!(count <= static_cast<double>(step.most()))) step.refuse("its range is too long, or has a step of 0");
  Array out = step.make(start.type, {std::max<Index>(0, static_cast<Index>(std::max(count, 0.0)))}, 1);
  for (std::size_t i = 0; i < out.floats.size(); ++i) out.floats[i] = number(0) + static_cast<double>(i) * number(2);
  for (std::size_t i = 0; i < out.integers.size(); ++i)
    out.integers[i] = step.in(0).integers.front() + static_cast<std::int64_t>(i) * step.in(2).integers.front();
  if (!out.floats.empty() && !is_exact(out, number(0), number(2)))
    step.refuse("floats that are not exact in its type: runtimes add them up or multiply");
  step.round(out);
  step.outputs.push_back(std::move(out));
}

}  // namespace attest::graph
