#include "graph/connections.hpp"

#include <algorithm>
#include <span>
#include <variant>

namespace attest::graph {
namespace {

std::size_t at(int value) { return static_cast<std::size_t>(value); }

}  // namespace

Connections::Connections(const Model& model)
    : model_(model),
      givers_(model.values.size()),
      readers_(model.values.size()),
      constant_(model.values.size()),
      of_shapes_(model.values.size()) {
  for (const auto& [value, array] : model.constants) constant_[at(value)] = of_shapes_[at(value)] = true;
  for (const Node& node : model.nodes) {
    const auto all_are = [&node](const std::vector<bool>& so, std::size_t inputs) {
      return std::ranges::all_of(std::span(node.inputs.data(), inputs),
                                 [&so](int value) { return value < 0 || so[at(value)]; });
    };
    const bool of_shape = node.op == "Shape" || node.op == "Size";
    const std::size_t with_numbers =
        node.op == "CastLike" ? 1 : node.inputs.size();  // the other input counts by its type
    for (const int value : node.outputs) {
      if (value < 0) continue;
      givers_[at(value)] = &node;
      constant_[at(value)] = all_are(constant_, node.inputs.size());
      of_shapes_[at(value)] = of_shape || all_are(of_shapes_, with_numbers);
    }
    for (const int value : node.inputs)
      if (value >= 0) readers_[at(value)].push_back(&node);
  }
}

const Node* Connections::giver(int value) const { return value < 0 ? nullptr : givers_[at(value)]; }

const Node* Connections::giver(int value, std::string_view op) const {
  const Node* const node = giver(value);
  return node != nullptr && node->op == op && is_own(*node) ? node : nullptr;
}

const Node* Connections::only_reader(int value, std::string_view op) const {
  const auto& readers = readers_[at(value)];
  const bool leaves = std::ranges::find(model_.outputs, value, &Output::value) != model_.outputs.end();
  return !leaves && readers.size() == 1 && readers[0]->op == op && is_own(*readers[0]) ? readers[0] : nullptr;
}

const Stored* Connections::constant(int value) const {
  for (const Node* node = giver(value); node != nullptr && (node->op == "Identity" || node->op == "Reshape" ||
                                                            node->op == "Squeeze" || node->op == "Unsqueeze");
       node = giver(value))
    value = node->inputs[0];
  if (const auto found = model_.constants.find(value); found != model_.constants.end()) return &found->second;
  const Node* const node = giver(value, "Constant");
  if (node == nullptr) return nullptr;
  const auto attribute = node->attributes.find("value");
  return attribute == node->attributes.end() ? nullptr : std::get_if<Stored>(&attribute->second);
}

bool Connections::is_number(int value, double number) const {
  const Stored* const stored = constant(value);
  if (stored == nullptr || stored->size() != 1) return false;
  const Array array = stored->array();
  return array.floats.empty() ? static_cast<double>(array.integers[0]) == number : array.floats[0] == number;
}

bool Connections::is_constant(int value) const { return value >= 0 && constant_[at(value)]; }

bool Connections::may_be_single(int value) const {
  const Stored* const array = constant(value);
  return array == nullptr ? value >= 0 && of_shapes_[at(value)] : array->size() == 1;
}

int Connections::before_moves(int value) const {
  while (true) {
    const Node* node = giver(value, "Transpose");
    if (node == nullptr)
      if (const Node* const reshape = giver(value, "Reshape"); reshape != nullptr && is_constant(reshape->inputs[1]))
        node = reshape;
    if (node == nullptr) return value;
    value = node->inputs[0];
  }
}

Index integer_of(const Node& node, std::string_view attribute, Index otherwise) {
  const auto found = node.attributes.find(attribute);
  if (found == node.attributes.end()) return otherwise;
  const auto* const number = std::get_if<std::int64_t>(&found->second);
  return number == nullptr ? otherwise : *number;
}

}  // namespace attest::graph
