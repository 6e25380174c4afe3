#include "graph/link.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <queue>
#include <set>
#include <string_view>
#include <unordered_map>

#include "graph/wire.hpp"

namespace attest::graph {
namespace {

class Names {
 public:
  explicit Names(std::vector<std::string>& values) : values_(values) {}
  // The names of a graph in another one.
  explicit Names(const Names& around) : values_(around.values_), around_(&around) {}
  Names& operator=(const Names&) = delete;

  // A value that something gives. `giver` for the sentence.
  int give(const std::string& name, std::string_view giver) {
    if (name.empty()) throw Fault{fmt::format("{} has no name", giver)};
    const auto [at, fresh] = numbers_.try_emplace(name, static_cast<int>(values_.size()));
    if (!fresh) throw Fault{fmt::format("{} gives '{}', which is given already", giver, name)};
    values_.push_back(name);
    return at->second;
  }
  // nullopt where nothing gives it.
  [[nodiscard]] std::optional<int> find(const std::string& name) const {
    const auto at = numbers_.find(name);
    if (at != numbers_.end()) return at->second;
    return around_ == nullptr ? std::nullopt : around_->find(name);
  }
  // The number of the next value.
  [[nodiscard]] int next() const noexcept { return static_cast<int>(values_.size()); }

 private:
  std::vector<std::string>& values_;
  const Names* around_ = nullptr;
  std::unordered_map<std::string, int> numbers_;
};

// The order of evaluation: among nodes that may run, the first in the file comes first (Kahn, Topological sorting of
// large networks, CACM 1962).
std::vector<std::size_t> order(const std::vector<StatedNode>& stated, const std::vector<Node>& nodes,
                               std::size_t values) {
  std::vector<std::vector<std::size_t>> readers(values);
  std::vector<std::size_t> waits(nodes.size());
  std::vector<bool> from_node(values);
  for (const Node& node : nodes)
    for (const int value : node.outputs)
      if (value >= 0) from_node[static_cast<std::size_t>(value)] = true;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    for (const int value : nodes[i].inputs) {
      if (value < 0 || !from_node[static_cast<std::size_t>(value)]) continue;
      readers[static_cast<std::size_t>(value)].push_back(i);
      ++waits[i];
    }
  }
  std::priority_queue<std::size_t, std::vector<std::size_t>, std::greater<>> ready;
  for (std::size_t i = 0; i < nodes.size(); ++i)
    if (waits[i] == 0) ready.push(i);
  std::vector<std::size_t> found;
  while (!ready.empty()) {
    const std::size_t i = ready.top();
    ready.pop();
    found.push_back(i);
    for (const int value : nodes[i].outputs) {
      if (value < 0) continue;
      for (const std::size_t reader : readers[static_cast<std::size_t>(value)])
        if (--waits[reader] == 0) ready.push(reader);
    }
  }
  if (found.size() < nodes.size()) {
    std::size_t first = 0;
    while (waits[first] == 0) ++first;
    throw Fault{
        fmt::format("{} waits for its own result: the graph goes in a circle", described(stated[first].node, first))};
  }
  return found;
}

Input linked_input(const StatedValue& stated, Names& names) {
  const std::string what = fmt::format("input '{}'", stated.name);
  if (!stated.data_type) throw Fault{what + " is no tensor (a sequence, a map, an optional, or of no type)"};
  if (!stated.shape) throw Fault{what + " does not say how many axes it has: give it a shape of symbols"};
  return {stated.name, type_of(*stated.data_type, what), *stated.shape, names.give(stated.name, what)};
}

std::vector<Node> linked_nodes(StatedGraph& graph, Names& names);

// The graph of a node. Adds to `captured` what it reads of the graphs around it.
Body linked_body(StatedGraph& graph, const Names& around, std::set<int>& captured) {
  Body body;
  Names names(around);
  const int first = names.next();
  for (auto& [name, array] : graph.constants)
    body.constants.emplace(names.give(name, fmt::format("initialiser '{}'", name)), std::move(array));
  for (const StatedValue& stated : graph.inputs)
    body.inputs.push_back(names.give(stated.name, fmt::format("input '{}'", stated.name)));
  body.nodes = linked_nodes(graph, names);
  for (const StatedValue& stated : graph.outputs) {
    const auto value = names.find(stated.name);
    if (!value) throw Fault{fmt::format("output '{}' of a graph within is given by nothing", stated.name)};
    body.outputs.push_back(*value);
  }
  const auto look = [&](int value) {
    if (value >= 0 && value < first) captured.insert(value);
  };
  for (const Node& node : body.nodes) std::ranges::for_each(node.inputs, look);
  std::ranges::for_each(body.outputs, look);
  return body;
}

std::vector<Node> linked_nodes(StatedGraph& graph, Names& names) {
  std::vector<Node> nodes, ordered;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    StatedNode& stated = graph.nodes[i];
    nodes.push_back(stated.node);
    if (stated.node.op.empty()) throw Fault{fmt::format("node {} has no operator", i)};
    for (const std::string& name : stated.outputs)
      nodes.back().outputs.push_back(name.empty() ? -1 : names.give(name, described(stated.node, i)));
  }
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    for (const std::string& name : graph.nodes[i].inputs) {
      const auto value = name.empty() ? std::optional<int>(-1) : names.find(name);
      if (!value)
        throw Fault{fmt::format("{} reads '{}', which nothing gives", described(graph.nodes[i].node, i), name)};
      nodes[i].inputs.push_back(*value);
    }
    std::set<int> captured;
    for (auto& [name, inner] : graph.nodes[i].bodies)
      nodes[i].attributes[name] = std::make_shared<const Body>(linked_body(inner, names, captured));
    nodes[i].captured = captured.size();
    nodes[i].inputs.insert(nodes[i].inputs.end(), captured.begin(), captured.end());
  }
  const auto values = static_cast<std::size_t>(names.next());
  for (const std::size_t i : order(graph.nodes, nodes, values)) ordered.push_back(std::move(nodes[i]));
  return ordered;
}

// One call of a function.
class Call {
 public:
  Call(const StatedFunction& function, const StatedNode& node, std::string prefix)
      : function_(function), node_(node), prefix_(std::move(prefix)) {
    for (std::size_t i = 0; i < function.inputs.size(); ++i)
      names_[function.inputs[i]] = i < node.inputs.size() ? node.inputs[i] : "";
    for (std::size_t i = 0; i < function.outputs.size() && i < node.outputs.size(); ++i) {
      if (node.outputs[i].empty()) continue;
      const auto [known, fresh] = names_.emplace(function.outputs[i], node.outputs[i]);
      if (!fresh) {  // an input as it is, or an output twice
        StatedNode& copy = copies_.emplace_back();
        copy.node.op = "Identity";
        copy.inputs = {known->second};
        copy.outputs = {node.outputs[i]};
      }
    }
  }

  // The function's nodes with the names and attributes of this call.
  [[nodiscard]] std::vector<StatedNode> nodes() const {
    std::vector<StatedNode> nodes = function_.nodes;
    for (StatedNode& one : nodes) rename(one);
    nodes.insert(nodes.end(), copies_.begin(), copies_.end());
    return nodes;
  }

 private:
  void rename(std::string& name) const {
    if (name.empty()) return;
    const auto known = names_.find(name);
    name = known == names_.end() ? prefix_ + name : known->second;
  }
  void rename(StatedNode& node) const {
    node.node.name = prefix_ + node.node.name;
    for (std::string& name : node.inputs) rename(name);
    for (std::string& name : node.outputs) rename(name);
    std::map<std::string, Attribute, std::less<>> attributes;
    for (const auto& [name, attribute] : node.node.attributes) {
      const Attribute* value = &attribute;
      if (const auto* const parameter = std::get_if<Parameter>(&attribute)) {
        const auto given = node_.node.attributes.find(parameter->name);
        const auto otherwise = function_.defaults.find(parameter->name);
        value = given != node_.node.attributes.end()    ? &given->second
                : otherwise != function_.defaults.end() ? &otherwise->second
                                                        : nullptr;
      }
      if (value != nullptr) attributes.emplace(name, *value);
    }
    node.node.attributes = std::move(attributes);
    for (auto& [name, graph] : node.bodies) {
      for (auto& constant : graph.constants) rename(constant.first);
      for (StatedValue& value : graph.inputs) rename(value.name);
      for (StatedValue& value : graph.outputs) rename(value.name);
      for (StatedNode& inner : graph.nodes) rename(inner);
    }
  }

  const StatedFunction& function_;
  const StatedNode& node_;
  std::string prefix_;
  std::map<std::string, std::string> names_;
  std::vector<StatedNode> copies_;
};

class Inliner {
 public:
  explicit Inliner(const std::vector<StatedFunction>& functions) : functions_(functions) {}

  void inline_all(std::vector<StatedNode>& nodes, int depth) {
    std::vector<StatedNode> all;
    for (StatedNode& node : nodes) {
      for (auto& [name, graph] : node.bodies) inline_all(graph.nodes, depth);
      const auto called = std::ranges::find_if(functions_, [&node](const StatedFunction& one) {
        return one.domain == node.node.domain && one.name == node.node.op;
      });
      if (called == functions_.end()) {
        all.push_back(std::move(node));
      } else {
        if (depth == deepest) throw Fault{fmt::format("its function '{}' calls itself", called->name)};
        const std::string name = node.node.name.empty() ? node.node.op : node.node.name;
        auto inner = Call(*called, node, fmt::format("{}.{}/", name, ++calls_)).nodes();
        inline_all(inner, depth + 1);
        std::ranges::move(inner, std::back_inserter(all));
      }
      if ((count_ += 1) > most_nodes) throw Fault{fmt::format("its functions come to more than {} nodes", most_nodes)};
    }
    nodes = std::move(all);
  }

 private:
  const std::vector<StatedFunction>& functions_;
  std::size_t calls_ = 0, count_ = 0;
};

}  // namespace

void inline_functions(StatedGraph& graph, const std::vector<StatedFunction>& functions) {
  if (!functions.empty()) Inliner(functions).inline_all(graph.nodes, 0);
}

Model linked(StatedGraph graph) {
  Model model;
  Names names(model.values);
  for (auto& [name, array] : graph.constants) {
    const int value = names.give(name, fmt::format("initialiser '{}'", name));
    model.constants.emplace(value, std::move(array));
  }
  const auto constants = static_cast<int>(model.values.size());
  for (const StatedValue& stated : graph.inputs) {
    // An initialiser of the same name is a default that attest keeps to.
    const bool has_default = names.find(stated.name).value_or(constants) < constants;
    if (!has_default) model.inputs.push_back(linked_input(stated, names));
  }

  model.nodes = linked_nodes(graph, names);

  for (const StatedValue& stated : graph.outputs) {
    const auto value = names.find(stated.name);
    if (!value) throw Fault{fmt::format("output '{}' is given by nothing", stated.name)};
    if (stated.is_other)
      throw Fault{
          fmt::format("output '{}' is no tensor (a sequence, a map, an optional): give its tensors", stated.name)};
    model.outputs.push_back({stated.name, *value});
    if (stated.data_type) model.outputs.back().said = type_numbered(*stated.data_type);
  }
  if (model.outputs.empty()) throw Fault{"its graph has no outputs"};
  for (const auto* const all : {&graph.within, &graph.outputs})
    for (const StatedValue& stated : *all)
      if (const auto value = names.find(stated.name); value && stated.shape)
        model.stated.emplace(*value, *stated.shape);
  return model;
}

}  // namespace attest::graph
