#pragma once
#include <cstdint>
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
};
struct StatedNode {
  Node node;  // without inputs and outputs
  std::vector<std::string> inputs, outputs;
};
struct StatedGraph {
  std::vector<StatedValue> inputs, outputs;
  std::vector<std::pair<std::string, Array>> constants;
  std::vector<StatedNode> nodes;
};

// The graph with numbered values and its nodes in an order in which they can be evaluated: the file's, if that is one. Without
// an opset. Throws Fault (wire.hpp) for names that nothing gives or that are given twice, circles, and inputs that are no
// tensors of a type and a number of axes that are known.
Model linked(StatedGraph graph);

}  // namespace attest::graph
