#include "graph/program.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "core/error.hpp"
#include "graph/connections.hpp"
#include "graph/operators.hpp"
#include "graph/shapes.hpp"
#include "graph/step.hpp"

namespace attest::graph {
namespace {

struct Missing {
  int nodes = 0;
  std::string first;
};
// Calls f for the nodes, and for those of their graphs before them.
template <class F>
void each_node(const std::vector<Node>& nodes, F f) {
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    for (const auto& [name, attribute] : nodes[i].attributes)
      if (const auto* const body = std::get_if<std::shared_ptr<const Body>>(&attribute)) each_node((*body)->nodes, f);
    f(nodes[i], i);
  }
}

// Names all that is missing, in one sentence.
void check_operators(const Model& model) {
  std::map<std::string, Missing> missing;
  each_node(model.nodes, [&missing](const Node& node, std::size_t i) {
    if (find_operator(node) != nullptr) return;
    Missing& one = missing[node.domain.empty() ? node.op : fmt::format("{}.{}", node.domain, node.op)];
    if (one.nodes++ == 0) one.first = node.name.empty() ? fmt::format("node {}", i) : fmt::format("'{}'", node.name);
  });
  if (missing.empty()) return;
  std::string all;
  for (const auto& [name, one] : missing)
    all += fmt::format("{}{} ({}{})", all.empty() ? "" : ", ", name, one.first,
                       one.nodes > 1 ? fmt::format(" and {} more", one.nodes - 1) : "");
  throw usage_error(
      fmt::format("attest does not evaluate {} of version {}: rewrite the nodes, export the model without "
                  "fusions, or cut it before them (docs/graphs.md lists what is evaluated)",
                  all, model.opset));
}

void check_node(const Node& node, std::size_t number) {
  const auto refuse = [&](const std::string& why) {
    throw usage_error(fmt::format("{}: {}", described(node, number), why));
  };
  const Operator* const found = find_operator(node);
  if (node.own_inputs() < found->least_inputs || node.own_inputs() > found->most_inputs)
    refuse(fmt::format("{} inputs are not what the operator takes", node.own_inputs()));
  if (node.outputs.empty()) refuse("it has no outputs");
  for (std::size_t i = found->most_outputs; i < node.outputs.size(); ++i)
    if (node.outputs[i] >= 0) refuse("attest evaluates the operator's first output alone");
}

void check_feed(const Input& input, const Array& given, std::map<std::string, Index>& symbols) {
  const auto refuse = [&input](const std::string& why) {
    throw usage_error(fmt::format("input '{}': {}", input.name, why));
  };
  if (given.type != input.type) refuse(fmt::format("{} in place of {}", name(given.type), name(input.type)));
  bool fits = given.shape.size() == input.shape.size();
  for (std::size_t k = 0; fits && k < input.shape.size(); ++k)
    fits = input.shape[k].length.value_or(given.shape[k]) == given.shape[k];
  if (!fits) refuse(fmt::format("a tensor of shape {} is not what the model takes", shape_text(given.shape)));
  const auto held = static_cast<Index>(given.floats.size() + given.integers.size());
  if (given.lanes != 1 || elements(given.shape, most_elements, "it") != held)
    refuse("its elements do not fill its shape");
  for (std::size_t k = 0; k < input.shape.size(); ++k) {
    if (input.shape[k].symbol.empty()) continue;
    const Index length = symbols.emplace(input.shape[k].symbol, given.shape[k]).first->second;
    if (length != given.shape[k])
      refuse(fmt::format("{} is {} here and {} elsewhere", input.shape[k].symbol, given.shape[k], length));
  }
}

// The length of a tensor that is another one than the file states, by a number or by a symbol that has a length
// already; else empty.
std::string contradicted(const std::string& name, const std::vector<Dimension>& stated, const std::vector<Index>& shape,
                         std::map<std::string, Index>& symbols) {
  if (stated.size() != shape.size())
    return fmt::format("'{}' has {} axes, and {} by the file", name, shape.size(), stated.size());
  for (std::size_t k = 0; k < shape.size(); ++k) {
    const Dimension& one = stated[k];
    if (one.length && *one.length != shape[k])
      return fmt::format("axis {} of '{}' is {}, and {} by the file", k, name, shape[k], *one.length);
    if (one.symbol.empty()) continue;
    if (const Index before = symbols.emplace(one.symbol, shape[k]).first->second; before != shape[k])
      return fmt::format("axis {} of '{}' is {}, and '{}' by the file, which is {} elsewhere", k, name, shape[k],
                         one.symbol, before);
  }
  return {};
}

// One evaluation.
class Run {
 public:
  Run(const Model& model, std::span<const Arithmetic* const> lanes, const Precision& precision, Index most,
      const std::function<bool()>& stop)
      : model_(model),
        lanes_(lanes),
        precision_(precision),
        most_(most),
        stop_(stop),
        values_(model.values.size()),
        next_(model.nodes.size()) {}

  // An input, in the format that it is computed in.
  void put(int value, const Array& given) {
    if (stays(given.type, precision_.inputs))
      values_[static_cast<std::size_t>(value)].read = &given;
    else
      hold(value, std::make_unique<Array>(converted(given, precision_.inputs, static_cast<Place>(value))));
  }
  // A constant, which stays as it is stored until a node reads it.
  void put(int value, const Stored& given) { values_[static_cast<std::size_t>(value)] = {nullptr, nullptr, &given}; }

  // Evaluates a node; `folded`: in float arithmetic to nearest, alike in all lanes. Throws Stopped.
  void step(const Node& node, std::size_t number, bool folded) {
    pause();
    std::vector<Operand> inputs;
    for (const int value : std::span(node.inputs).first(node.own_inputs())) {
      const Stored* const stored = value < 0 ? nullptr : values_[static_cast<std::size_t>(value)].stored;
      if (stored == nullptr)
        inputs.emplace_back(value < 0 ? nullptr : values_[static_cast<std::size_t>(value)].read);
      else
        inputs.emplace_back(*stored, stays(stored->type, precision_.weights),
                            [this, stored, value] { return widened(*stored, value); });
    }
    const Arithmetic* const to_nearest[] = {nearest_.get()};
    Step step(node, number, model_.opset, folded ? std::span(to_nearest) : lanes_, precision_, most_,
              std::move(inputs));
    step.evaluated = [this, folded](const Body& body, std::vector<Array> given) {
      return evaluated(body, std::move(given), folded);
    };
    step.pause = [this] { pause(); };
    find_operator(node)->evaluate(step);
    for (std::size_t i = 0; i < node.outputs.size(); ++i)
      if (node.outputs[i] >= 0) hold(node.outputs[i], std::make_unique<Array>(std::move(step.outputs.at(i))));
  }

  // The work of a node that was evaluated.
  [[nodiscard]] double work_of(std::size_t number) const {
    const Node& node = model_.nodes[number];
    double terms = 1;
    if (node.op == "MatMul" || node.op == "Gemm") {
      const auto& left = shape(node.inputs.front());
      if (!left.empty()) terms = static_cast<double>(left.back());
    }
    if (node.op == "Conv" || node.op == "ConvInteger" || node.op == "ConvTranspose") {  // the weights of one map
      const auto& weights = shape(node.inputs[1]);
      const Index maps = weights[node.op == "ConvTranspose" ? 1 : 0];
      terms = static_cast<double>(volume(weights)) / static_cast<double>(std::max<Index>(maps, 1));
    }
    if (node.op == "Attention") {  // both products, of each row and key
      const auto& k = shape(node.inputs[1]);
      if (k.size() >= 2) terms = 2 * static_cast<double>(k[k.size() - 2]);
    }
    double work = 0;
    for (const int value : node.outputs)
      if (value >= 0) work += terms * static_cast<double>(volume(shape(value)));
    return work;
  }

  void forget(int value) { values_[static_cast<std::size_t>(value)] = {}; }
  [[nodiscard]] const std::vector<Index>& shape(int value) const {
    const Held& held = values_[static_cast<std::size_t>(value)];
    return held.stored == nullptr ? held.read->shape : held.stored->shape;
  }
  [[nodiscard]] Array at(int value) const {
    const Held& held = values_[static_cast<std::size_t>(value)];
    return held.stored == nullptr ? *held.read : widened(*held.stored, value);
  }

 private:
  struct Held {
    const Array* read = nullptr;
    std::unique_ptr<Array> own;
    const Stored* stored = nullptr;  // a constant, in place of a tensor
  };

  void pause() const {
    if (stop_ && stop_()) throw Stopped();
  }

  std::vector<Array> evaluated(const Body& body, std::vector<Array> given, bool folded) {
    for (const auto& [value, array] : body.constants) put(value, array);
    for (std::size_t i = 0; i < given.size(); ++i)
      hold(body.inputs.at(i), std::make_unique<Array>(std::move(given[i])));
    for (const Node& node : body.nodes) step(node, next_++, folded);  // noise of its own each time
    std::vector<Array> outputs;
    for (const int value : body.outputs) outputs.push_back(at(value));
    return outputs;
  }

  void hold(int value, std::unique_ptr<Array> array) {
    Held& held = values_[static_cast<std::size_t>(value)];
    held.own = std::move(array);
    held.read = held.own.get();
    held.stored = nullptr;
  }

  [[nodiscard]] static bool stays(Type type, const Precision::Formats& formats) {
    return !is_floating(type) || formats[static_cast<std::size_t>(format_of(type))] == format_of(type);
  }

  [[nodiscard]] Array widened(const Stored& weights, int value) const {
    const Array given = weights.array();
    return stays(given.type, precision_.weights) ? given
                                                 : converted(given, precision_.weights, static_cast<Place>(value));
  }

  // One lane for each arithmetic.
  [[nodiscard]] Array converted(const Array& x, const Precision::Formats& formats, Place place) const {
    const Format format = formats[static_cast<std::size_t>(format_of(x.type))];
    Array wide = zeros(x.type, x.shape, static_cast<Index>(lanes_.size()));
    for (std::size_t l = 0; l < lanes_.size(); ++l) {
      const auto lane = wide.lane(static_cast<Index>(l));
      std::copy(x.floats.begin(), x.floats.end(), lane.begin());
      lanes_[l]->convert(lane, format, place);
    }
    return wide;
  }

  const Model& model_;
  std::span<const Arithmetic* const> lanes_;
  const Precision& precision_;
  Index most_;
  const std::function<bool()>& stop_;
  std::unique_ptr<Arithmetic> nearest_ = nearest();
  std::vector<Held> values_;
  std::size_t next_;  // number of a node of a body
};

// Tells if a node gives integers or truths, whatever it reads.
bool gives_integers(const Node& node) {
  constexpr std::string_view compares[] = {"Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"};
  if (node.op != "Cast") return std::ranges::find(compares, node.op) != std::end(compares);
  const auto to = type_numbered(integer_of(node, "to", 0));
  return to && !is_floating(*to) && !is_code(*to);
}

// Nodes that hang on shapes and constants alone and whose results reach nothing but integers: positions and the like. A
// member that rounds them at random would make other shapes or rows of a table of them, which a runtime does not: it
// computes them in their format.
std::vector<bool> folded_nodes(const Model& model) {
  std::vector<bool> of_shapes(model.values.size(), false), kept(model.values.size(), false);
  const auto at = [](int value) { return static_cast<std::size_t>(value); };
  for (const auto& constant : model.constants) of_shapes[at(constant.first)] = true;
  for (const Output& output : model.outputs) kept[at(output.value)] = true;
  std::vector<bool> folded;
  for (const Node& node : model.nodes) {
    const bool so = node.op == "Shape" || node.op == "Size" ||
                    std::ranges::all_of(node.inputs, [&](int value) { return value < 0 || of_shapes[at(value)]; });
    folded.push_back(so);
    for (const int value : node.outputs)
      if (value >= 0) of_shapes[at(value)] = so;
  }
  for (std::size_t i = model.nodes.size(); i-- > 0;) {
    const Node& node = model.nodes[i];
    folded[i] = folded[i] && std::ranges::none_of(node.outputs, [&](int v) { return v >= 0 && kept[at(v)]; });
    if (!folded[i] && !gives_integers(node))
      for (const int value : node.inputs)
        if (value >= 0) kept[at(value)] = true;
  }
  return folded;
}

}  // namespace

Feeds feeds_of(const Model& model, const Feeds& all) {
  Feeds feeds;
  for (const Input& input : model.inputs) feeds.emplace(input.name, all.at(input.name));
  return feeds;
}

Program::Program(Model model, Index most) : model_(std::move(model)), most_(most), last_use_(model_.values.size(), 0) {
  check_operators(model_);
  each_node(model_.nodes, check_node);
  folded_ = folded_nodes(model_);
  for (std::size_t i = 0; i < model_.nodes.size(); ++i) {
    for (const int value : model_.nodes[i].inputs)
      if (value >= 0) last_use_[static_cast<std::size_t>(value)] = i;
  }
  for (const Output& output : model_.outputs) last_use_[static_cast<std::size_t>(output.value)] = model_.nodes.size();
}

std::vector<Array> Program::run(const Feeds& feeds, std::span<const Arithmetic* const> lanes,
                                const Precision& precision, const std::function<bool()>& stop) const {
  return run(feeds, lanes, precision, stop, nullptr);
}

std::vector<Array> Program::run(const Feeds& feeds) const { return run_exactly(feeds, nullptr); }

Program::Seen Program::seen(const Feeds& feeds) const {
  Seen seen;
  run_exactly(feeds, &seen);
  return seen;
}

std::vector<Array> Program::run_exactly(const Feeds& feeds, Seen* seen) const {
  const auto arithmetic = exact();
  const Arithmetic* const lane[] = {arithmetic.get()};
  return run(feeds, lane, {}, {}, seen);
}

std::vector<Array> Program::run(const Feeds& feeds, std::span<const Arithmetic* const> lanes,
                                const Precision& precision, const std::function<bool()>& stop, Seen* seen) const {
  Run run(model_, lanes, precision, most_, stop);
  for (const auto& [value, array] : model_.constants) run.put(value, array);
  std::map<std::string, Index> symbols;
  for (const Input& input : model_.inputs) {
    const auto given = feeds.find(input.name);
    if (given == feeds.end()) throw usage_error(fmt::format("input '{}' is missing", input.name));
    check_feed(input, given->second, symbols);
    run.put(input.value, given->second);
  }
  if (feeds.size() > model_.inputs.size())
    for (const auto& feed : feeds) {
      const std::string& name = feed.first;
      const auto same = [&name](const Input& input) { return input.name == name; };
      if (std::none_of(model_.inputs.begin(), model_.inputs.end(), same))
        throw usage_error(fmt::format("the model has no input '{}'", name));
    }
  for (std::size_t i = 0; i < model_.nodes.size(); ++i) {
    run.step(model_.nodes[i], i, folded_[i]);
    if (seen != nullptr) {
      seen->work += run.work_of(i);
      for (const int value : model_.nodes[i].outputs) {
        const auto stated = value < 0 ? model_.stated.end() : model_.stated.find(value);
        if (stated == model_.stated.end() || !seen->contradiction.empty()) continue;
        seen->contradiction =
            contradicted(model_.values[static_cast<std::size_t>(value)], stated->second, run.shape(value), symbols);
      }
    }
    for (const int value : model_.nodes[i].inputs)
      if (value >= 0 && last_use_[static_cast<std::size_t>(value)] == i) run.forget(value);
  }
  std::vector<Array> outputs;
  for (const Output& output : model_.outputs) outputs.push_back(run.at(output.value));
  return outputs;
}

}  // namespace attest::graph
