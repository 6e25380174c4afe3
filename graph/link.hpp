#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "graph/model.hpp"

namespace attest::graph {

inline constexpr Index longest_axis = Index{1} << 31;
// Before 7 operators broadcast by an attribute.
inline constexpr Index first_opset = 7, last_opset = 28;

// A graph as a file has it, its values by name.
struct StatedValue {
  std::string name;
  std::optional<std::int64_t> data_type;  // nothing where it is no tensor
  std::optional<std::vector<Dimension>> shape;
  bool is_other = false;  // a sequence, a map, an optional
};
struct StatedGraph;
struct StatedNode {
  Node node;  // without inputs and outputs
  std::vector<std::string> inputs, outputs;
  std::map<std::string, StatedGraph> bodies;  // attributes that are graphs
};
struct StatedGraph {
  std::vector<StatedValue> inputs, outputs, within;
  std::vector<std::pair<std::string, Stored>> constants;
  std::vector<StatedNode> nodes;
};
// A function that a model brings for its nodes.
struct StatedFunction {
  std::string domain, name;
  std::vector<std::string> inputs, outputs;
  std::map<std::string, Attribute, std::less<>> defaults;
  std::vector<StatedNode> nodes;
  Index opset = 0;  // 0 where it does not say
};
inline constexpr std::size_t most_nodes = std::size_t{1} << 20;

// The graph with the nodes of functions in place of the nodes that call them, and those of functions that these call;
// their values and nodes are named after the node. Throws Fault for one that calls itself, and where more than
// most_nodes come together.
void inline_functions(StatedGraph& graph, const std::vector<StatedFunction>& functions);

// The graph with numbered values and its nodes in an order in which they can be evaluated: the file's, if that is one.
// It has no opset. Throws Fault (wire.hpp) for names that nothing gives or that are given twice, circles, and inputs
// that are no tensors of a type and a number of axes that are known.
Model linked(StatedGraph graph);

}  // namespace attest::graph
