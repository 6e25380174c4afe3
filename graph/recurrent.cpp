#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>
#include <vector>

#include "graph/operators.hpp"
#include "graph/zip.hpp"

namespace attest::graph {
namespace {

struct State {
  Array hidden, cell;  // [batch, width]
};

Array joined(Step& step, const std::vector<Array>& parts, Index axis) {
  std::vector<const Array*> listed;
  for (const Array& one : parts) listed.push_back(&one);
  return step.part(concat, std::move(listed), {{"axis", axis}});
}

// Weights of all directions, as LSTM has them. `eight_bits`: inputs and states meet them in 8 bits.
struct CellWeights {
  Array input, hidden;
  bool eight_bits = false;
};

// Numbers in steps of a 255th of their range, 0 among them: of each member another way, of the exact run none.
Array in_eight_bits(Step& step, Array x) {
  step.spread(x);
  Array width = step.make(x.type, {}, x.lanes);
  for (Index l = 0; l < x.lanes; ++l) {
    double least = 0, most = 0;
    for (const double v : x.lane(l)) {
      least = std::min(least, v);
      most = std::max(most, v);
    }
    width.lane(l)[0] = most > least ? (most - least) / 255 : 1;
  }
  // From 1024 to 2048 numbers of float16 are whole.
  constexpr double middle = 1536;
  Array steps = zip_floats(step, x, width, [](double v, double w) { return v / w + middle; });
  step.round(steps, Format::f16);
  return zip_floats(step, steps, width, [](double s, double w) { return (s - middle) * w; });
}

// One direction of a recurrent network.
class Cell {
 public:
  // A batch lies on axis `batch_axis` of its initial states.
  Cell(Step& step, const CellWeights& weights, Index direction, Index gates, Index batch, std::size_t batch_axis,
       std::vector<std::string> activations)
      : step_(step),
        activations_(std::move(activations)),
        width_(weights.hidden.shape[2]),
        eight_bits_(weights.eight_bits) {
    const auto part_of = [&](const Array& all, std::size_t axis) {
      Array one = section(step, all, axis, direction, 1);
      one.shape.erase(one.shape.begin() + static_cast<std::ptrdiff_t>(axis));
      return one;
    };
    const auto own = [&](std::size_t index, std::size_t axis = 0) { return part_of(step.in(index), axis); };
    const std::vector<Index> turned{1, 0};
    weights_ = transposed(step, part_of(weights.input, 0), turned);
    recurrence_ = transposed(step, part_of(weights.hidden, 0), turned);
    if (step.maybe(3) != nullptr) {
      biases_ = own(3);
      biases_.shape = {2, gates * width_};
    }
    if (step.maybe(7) != nullptr) peepholes_ = own(7);
    const auto initial = [&](std::size_t index) {
      return step.maybe(index) == nullptr ? zeros(step.in(0).type, {batch, width_}) : own(index, 1 - batch_axis);
    };
    start = {initial(5), initial(6)};
  }

  State start;

  // The part of inputs and a hidden state, of one or both, in `count` gates from `first` on, [batch, count * width].
  // Products and biases are the terms of one sum.
  Array gates(const Array* input, const Array* hidden, Index first, Index count) {
    const auto columns = [&](const Array& x) { return section(step_, x, 1, first * width_, count * width_); };
    std::vector<Array> left, right;
    const auto put = [&](const Array* x, const Array& weights, Index bias) {
      if (x == nullptr) return;
      left.push_back(*x);
      right.push_back(columns(weights));
      if (biases_.shape.empty()) return;
      left.push_back(zeros(x->type, {x->shape[0], 1}));
      std::ranges::fill(left.back().floats, 1.0);
      right.push_back(columns(section(step_, biases_, 0, bias, 1)));
    };
    put(input, weights_, 0);
    Array room;
    if (eight_bits_ && hidden != nullptr) hidden = &(room = in_eight_bits(step_, *hidden));
    put(hidden, recurrence_, 1);
    const Array x = joined(step_, left, 1), weights = joined(step_, right, 0);
    return of(matrix_product, {&x, &weights});
  }
  Array gate(const Array& all, Index index) {
    return section(step_, all, static_cast<std::size_t>(all.rank() - 1), index * width_, width_);
  }
  Array sum(const Array& a, const Array& b) { return of(add, {&a, &b}); }
  Array difference(const Array& a, const Array& b) { return of(subtract, {&a, &b}); }
  Array product(const Array& a, const Array& b) { return of(multiply, {&a, &b}); }
  // A sum with a state's cell's part in a gate, where there are peepholes.
  Array peeped(const Array& x, const Array& cell, Index index) {
    return peepholes_.shape.empty() ? x : sum(x, product(gate(peepholes_, index), cell));
  }
  Array activated(const Array& x, std::size_t index) {
    const std::string& name = activations_.at(index);
    if (name == "Relu") return of(relu, {&x});
    if (name == "Sigmoid" || name == "Tanh") {
      Array out = of(name == "Tanh" ? hyperbolic_tangent : sigmoid, {&x});
      // Cells have approximations of their own: that of onnxruntime's GRU is 1 + 8 u where tanh is 1.
      step_.function(out, 0, 8);
      step_.round(out);
      return out;
    }
    step_.refuse(fmt::format("the activation '{}': Sigmoid, Tanh and Relu are evaluated", name));
  }

 private:
  Array of(void (*evaluate)(Step&), std::vector<const Array*> inputs) {
    return step_.part(evaluate, std::move(inputs), {});
  }

  Step& step_;
  std::vector<std::string> activations_;
  Index width_;
  bool eight_bits_;
  Array weights_, recurrence_, biases_, peepholes_;
};

// The next state, from an input [batch, inputs].
using Advance = std::function<State(Cell&, const Array& input, const State& before)>;

// Returns x [length, batch, ...] with each sequence turned round, or as it is.
Array turned_round(const Step& step, const Array& x, const std::vector<Index>& lengths, bool turns) {
  if (!turns) return x;
  Array out = step.make(x.type, x.shape, x.lanes);
  const Index batch = x.shape[1], inner = x.size() / std::max<Index>(x.shape[0] * batch, 1);
  const auto turn = [&](auto from, auto to) {
    for (Index t = 0; t < x.shape[0]; ++t)
      for (Index b = 0; b < batch; ++b) {
        const Index end = lengths[static_cast<std::size_t>(b)], at = t < end ? end - 1 - t : t;
        std::copy_n(from.begin() + (at * batch + b) * inner, inner, to.begin() + (t * batch + b) * inner);
      }
  };
  for (Index l = 0; l < x.lanes; ++l) {
    if (is_floating(x.type))
      turn(x.lane(l), out.lane(l));
    else
      turn(x.integer_lane(l), out.integer_lane(l));
  }
  return out;
}

// Refuses lengths of sequences that are not one for each sample, from 0 to the whole.
void check_lengths(const Step& step, const std::vector<Index>& lengths, Index batch, Index length) {
  if (std::ssize(lengths) != batch ||
      std::ranges::any_of(lengths, [length](Index one) { return one < 0 || one > length; }))
    step.refuse(fmt::format("sequences of {} in {} samples of length {}", shape_text(lengths), batch, length));
}

// The states of all times, [length, directions, batch, width], and the last ones. `gates`: those of a cell. `names`:
// activations of a direction.
void recur(Step& step, const CellWeights& weights, Index gates, const std::vector<std::string>& names,
           const Advance& advance) {
  Array x = step.in(0);
  floats_alone(step, x);
  for (const Array* const one : {&weights.input, &weights.hidden}) same_types(step, x, *one);
  const bool batch_first = step.integer("layout", 0) != 0;
  if (x.rank() != 3 || weights.input.rank() != 3 || weights.hidden.rank() != 3)
    step.refuse(fmt::format("an input {} and weights {}", shape_text(x.shape), shape_text(weights.input.shape)));
  if (weights.eight_bits) x = in_eight_bits(step, x);
  if (batch_first) x = transposed(step, x, std::vector<Index>{1, 0, 2});
  const Index length = x.shape[0], batch = x.shape[1], width = weights.hidden.shape[2];
  const std::string direction = step.text("direction", "forward");
  const Index directions = direction == "bidirectional" ? 2 : 1;
  if (weights.input.shape[0] != directions || weights.input.shape[1] != gates * width)
    step.refuse(fmt::format("weights {} of {} directions and a width of {}", shape_text(weights.input.shape),
                            directions, width));
  if (step.attribute("clip") != nullptr) step.refuse("a clip, which documents place differently, is not evaluated");
  if (step.integer("input_forget", 0) != 0) step.refuse("joined gates (input_forget) are not evaluated");
  std::vector<std::string> activations;
  for (Index d = 0; d < directions; ++d) activations.insert(activations.end(), names.begin(), names.end());
  if (const Attribute* const stated = step.attribute("activations")) {
    const auto* const list = std::get_if<std::vector<std::string>>(stated);
    if (list == nullptr || list->size() != activations.size()) step.refuse("its activations are not as many as it has");
    activations = *list;
  }
  std::vector<Index> lengths(static_cast<std::size_t>(batch), length);
  if (step.maybe(4) != nullptr) lengths = step.numbers(4);
  check_lengths(step, lengths, batch, length);
  const bool ragged = std::ranges::any_of(lengths, [length](Index one) { return one < length; });

  std::vector<Array> all, hidden, cells;
  for (Index d = 0; d < directions; ++d) {
    const bool turns = direction == "reverse" || d == 1;
    const auto first = activations.begin() + d * std::ssize(names);
    Cell cell(step, weights, d, gates, batch, batch_first ? 0 : 1, {first, first + std::ssize(names)});
    const Array inputs = turned_round(step, x, lengths, turns);
    State state = std::move(cell.start);
    const Array nothing = zeros(x.type, {1, 1});
    std::vector<Array> states;
    const Place begun = step.parts();
    for (Index t = 0; t < length; ++t) {
      step.begin_parts(begun);
      Array now = section(step, inputs, 0, t, 1);
      now.shape.erase(now.shape.begin());
      State next = advance(cell, now, state);
      Array shown = next.hidden;
      if (ragged) {
        Array runs = zeros(Type::boolean, {batch, 1});
        for (std::size_t b = 0; b < lengths.size(); ++b) runs.integers[b] = t < lengths[b];
        next.hidden = step.part(where, {&runs, &next.hidden, &state.hidden}, {});
        if (!next.cell.shape.empty()) next.cell = step.part(where, {&runs, &next.cell, &state.cell}, {});
        shown = step.part(where, {&runs, &shown, &nothing}, {});
      }
      shown.shape.insert(shown.shape.begin(), 1);
      states.push_back(std::move(shown));
      state = std::move(next);
    }
    Array shown = length == 0 ? zeros(x.type, {0, batch, width}) : joined(step, states, 0);
    shown = turned_round(step, shown, lengths, turns);
    shown.shape.insert(shown.shape.begin() + 1, 1);
    all.push_back(std::move(shown));
    for (auto& [to, from] : {std::pair{&hidden, &state.hidden}, std::pair{&cells, &state.cell}}) {
      from->shape.insert(from->shape.begin(), 1);
      to->push_back(std::move(*from));
    }
  }
  step.outputs = {joined(step, all, 1), joined(step, hidden, 0), step.gives(2) ? joined(step, cells, 0) : Array{}};
  if (!batch_first) return;
  step.outputs[0] = transposed(step, step.outputs[0], std::vector<Index>{2, 0, 1, 3});
  for (const std::size_t last : {1, 2})
    if (step.gives(last)) step.outputs[last] = transposed(step, step.outputs[last], std::vector<Index>{1, 0, 2});
}

CellWeights weights_of(const Step& step) { return {step.in(1), step.in(2)}; }

// The numbers that weights of 8 bits, [directions, inputs, gates], stand for, as LSTM has them. A direction has one scale
// and zero point, or one for each of its columns.
Array dequantised(const Step& step, std::size_t input, std::size_t scales) {
  const Array &q = step.in(input), &scale = step.in(scales), &zero = step.in(scales + 1);
  if (q.rank() != 3 || q.lanes != 1 || width_of(q.type) != 8 || zero.type != q.type || zero.lanes != 1)
    step.refuse(fmt::format("weights {} of {}", shape_text(q.shape), name(q.type)));
  const Index directions = q.shape[0], rows = q.shape[1], columns = q.shape[2];
  floats_alone(step, scale);
  for (const Array* const one : {&scale, &zero})
    if (one->size() != directions && one->size() != directions * columns)
      step.refuse(fmt::format("a scale or zero point {} of {}", shape_text(one->shape), shape_text(q.shape)));
  const auto at = [&](const Array& of, Index direction, Index column) {
    return static_cast<std::size_t>(of.size() == directions ? direction : direction * columns + column);
  };
  Array out = step.make(scale.type, {directions, columns, rows}, scale.lanes);
  for (Index l = 0; l < out.lanes; ++l) {
    auto to = out.lane(l).begin();
    for (Index d = 0; d < directions; ++d)
      for (Index c = 0; c < columns; ++c)
        for (Index r = 0; r < rows; ++r) {
          const std::int64_t number = q.integers[static_cast<std::size_t>((d * rows + r) * columns + c)];
          *to++ = static_cast<double>(number - zero.integers[at(zero, d, c)]) * scale.lane(l)[at(scale, d, c)];
        }
  }
  return out;
}

State advanced(Cell& cell, const Array& input, const State& before) {
  const Array all = cell.gates(&input, &before.hidden, 0, 4);  // input, output, forget, cell
  const Array entry = cell.activated(cell.peeped(cell.gate(all, 0), before.cell, 0), 0);
  const Array forget = cell.activated(cell.peeped(cell.gate(all, 2), before.cell, 2), 0);
  const Array fresh = cell.activated(cell.gate(all, 3), 1);
  Array next = cell.sum(cell.product(forget, before.cell), cell.product(entry, fresh));
  const Array exit = cell.activated(cell.peeped(cell.gate(all, 1), next, 1), 0);
  Array hidden = cell.product(exit, cell.activated(next, 2));
  return State{std::move(hidden), std::move(next)};
}

}  // namespace

void reverse_sequence(Step& step) {
  const Array& x = step.in(0);
  const Index batch_axis = step.integer("batch_axis", 1), time_axis = step.integer("time_axis", 0);
  if (x.rank() < 2 || batch_axis + time_axis != 1 || batch_axis * time_axis != 0)
    step.refuse(
        fmt::format("times along axis {} and samples along axis {} of {}", time_axis, batch_axis, shape_text(x.shape)));
  const auto lengths = step.numbers(1);
  check_lengths(step, lengths, x.shape[static_cast<std::size_t>(batch_axis)],
                x.shape[static_cast<std::size_t>(time_axis)]);
  std::vector<Index> order(x.shape.size());
  std::iota(order.begin(), order.end(), Index{0});
  if (time_axis == 1) std::swap(order[0], order[1]);
  step.outputs.push_back(transposed(step, turned_round(step, transposed(step, x, order), lengths, true), order));
}

// The document of each of these states its equations; each sum of products, function and product of them is stored.
void recurrent_network(Step& step) {
  recur(step, weights_of(step), 1, {"Tanh"}, [](Cell& cell, const Array& input, const State& before) {
    return State{cell.activated(cell.gates(&input, &before.hidden, 0, 1), 0), before.cell};
  });
}

void long_short_term_memory(Step& step) { recur(step, weights_of(step), 4, {"Sigmoid", "Tanh", "Tanh"}, advanced); }

void dynamic_quantize_lstm(Step& step) {
  recur(step, {dequantised(step, 1, 8), dequantised(step, 2, 10), true}, 4, {"Sigmoid", "Tanh", "Tanh"}, advanced);
}

void gated_recurrent_unit(Step& step) {
  const bool linear = step.integer("linear_before_reset", 0) != 0;
  recur(step, weights_of(step), 3, {"Sigmoid", "Tanh"}, [linear](Cell& cell, const Array& input, const State& before) {
    const Array both = cell.activated(cell.gates(&input, &before.hidden, 0, 2), 0);
    const Array update = cell.gate(both, 0), reset = cell.gate(both, 1);
    Array inner;
    if (linear) {
      inner = cell.product(reset, cell.gates(nullptr, &before.hidden, 2, 1));
      inner = cell.sum(cell.gates(&input, nullptr, 2, 1), inner);
    } else {
      const Array kept = cell.product(reset, before.hidden);
      inner = cell.gates(&input, &kept, 2, 1);
    }
    const Array one = floats(input.type, {}, {1});
    const Array fresh = cell.product(cell.difference(one, update), cell.activated(inner, 1));
    return State{cell.sum(fresh, cell.product(update, before.hidden)), before.cell};
  });
}

}  // namespace attest::graph
