#include "graph/cut.hpp"

#include <algorithm>
#include <utility>

namespace attest::graph {
namespace {

// Marks what `value` needs, going back as far as values that are given.
std::vector<bool> needed(const Model& model, int value, const std::vector<bool>& given) {
  std::vector<bool> marked(model.values.size(), false);
  marked[static_cast<std::size_t>(value)] = true;
  for (std::size_t i = model.nodes.size(); i-- > 0;) {
    const Node& node = model.nodes[i];
    const bool wanted = std::ranges::any_of(node.outputs, [&](int v) {
      return v >= 0 && marked[static_cast<std::size_t>(v)] && !given[static_cast<std::size_t>(v)];
    });
    if (!wanted) continue;
    for (const int input : node.inputs)
      if (input >= 0) marked[static_cast<std::size_t>(input)] = true;
  }
  return marked;
}

Model part(const Model& model, std::span<const Input> fed, int value) {
  std::vector<bool> given(model.values.size(), false);
  for (const Input& input : fed) given[static_cast<std::size_t>(input.value)] = true;
  const std::vector<bool> marked = needed(model, value, given);
  const auto wanted = [&](int v) { return v >= 0 && marked[static_cast<std::size_t>(v)]; };
  Model cut;
  cut.opset = model.opset;
  cut.values = model.values;
  for (const Input& input : model.inputs)
    if (wanted(input.value)) cut.inputs.push_back(input);
  for (const Input& input : fed)
    if (wanted(input.value)) cut.inputs.push_back(input);
  for (const auto& [constant, array] : model.constants)
    if (wanted(constant)) cut.constants.emplace(constant, array);
  for (const Node& node : model.nodes)
    if (std::ranges::any_of(node.outputs, [&](int v) { return wanted(v) && !given[static_cast<std::size_t>(v)]; }))
      cut.nodes.push_back(node);
  cut.outputs.push_back({model.values[static_cast<std::size_t>(value)], value});
  return cut;
}

}  // namespace

Model prefix(const Model& model, int value) { return part(model, {}, value); }

Input input_in_place_of(const Model& model, int value, const Array& like) {
  return {model.values[static_cast<std::size_t>(value)], like.type, std::vector<Dimension>(like.shape.size()), value};
}

Model segment(const Model& model, std::span<const Input> fed, int value) { return part(model, fed, value); }

Model with_fixed_lengths(Model model, std::span<const std::vector<Index>> shapes) {
  for (std::size_t i = 0; i < model.inputs.size(); ++i)
    for (std::size_t k = 0; k < model.inputs[i].shape.size(); ++k) model.inputs[i].shape[k] = {shapes[i][k], {}};
  return model;
}

const Node* giver_of(const Model& model, int value) {
  const auto gives = [value](const Node& node) { return std::ranges::find(node.outputs, value) != node.outputs.end(); };
  const auto found = std::ranges::find_if(model.nodes, gives);
  return found == model.nodes.end() ? nullptr : &*found;
}

std::vector<int> computed_values(const Model& model) {
  std::vector<int> values;
  for (const Node& node : model.nodes)
    for (const int value : node.outputs)
      if (value >= 0) values.push_back(value);
  return values;
}

std::vector<bool> needed_for(const Model& model, int value) {
  return needed(model, value, std::vector<bool>(model.values.size(), false));
}

}  // namespace attest::graph
