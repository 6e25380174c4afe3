#include "graph/link.hpp"

#include <fmt/format.h>

#include <functional>
#include <queue>
#include <string_view>
#include <unordered_map>

#include "graph/wire.hpp"

namespace attest::graph {
namespace {

class Names {
 public:
  explicit Names(std::vector<std::string>& values) : values_(values) {}

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
    if (at == numbers_.end()) return std::nullopt;
    return at->second;
  }

 private:
  std::vector<std::string>& values_;
  std::unordered_map<std::string, int> numbers_;
};

// Of nodes that may run, the first in the file comes first (Kahn, Topological sorting of large networks, CACM 1962).
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

}  // namespace

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

  std::vector<Node> nodes;
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
  }
  for (const std::size_t i : order(graph.nodes, nodes, model.values.size())) model.nodes.push_back(std::move(nodes[i]));

  for (const StatedValue& stated : graph.outputs) {
    const auto value = names.find(stated.name);
    if (!value) throw Fault{fmt::format("output '{}' is given by nothing", stated.name)};
    model.outputs.push_back({stated.name, *value});
  }
  if (model.outputs.empty()) throw Fault{"its graph has no outputs"};
  return model;
}

}  // namespace attest::graph
