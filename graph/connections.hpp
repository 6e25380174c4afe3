#pragma once
#include <string_view>
#include <vector>

#include "graph/model.hpp"

namespace attest::graph {

// The nodes that give and that read each value of a model, which must live as long.
class Connections {
 public:
  explicit Connections(const Model& model);
  [[nodiscard]] const Model& model() const noexcept { return model_; }

  // The node that gives a value; the second, if it is this one of ONNX's own operators. nullptr where there is none; a
  // value may be -1.
  [[nodiscard]] const Node* giver(int value) const;
  [[nodiscard]] const Node* giver(int value, std::string_view op) const;
  // The only node that reads a value, if it is one of this operator and the value no output of the graph.
  [[nodiscard]] const Node* only_reader(int value, std::string_view op) const;

  // The array in the file, as an initialiser or a node Constant, perhaps in another shape; nullptr for a computed
  // value.
  [[nodiscard]] const Stored* constant(int value) const;
  [[nodiscard]] bool is_number(int value, double number) const;
  // Tells whether it hangs on no input.
  [[nodiscard]] bool is_constant(int value) const;
  // Tells whether it may be a tensor of one element and hangs on no input's numbers. The size of a computed value, of
  // the width of heads say, shows when it is evaluated.
  [[nodiscard]] bool may_be_single(int value) const;
  // `value` before Transpose, and Reshape to a shape that stays.
  [[nodiscard]] int before_moves(int value) const;

 private:
  const Model& model_;
  // All are by value.
  std::vector<const Node*> givers_;
  std::vector<std::vector<const Node*>> readers_;
  std::vector<bool> constant_, of_shapes_;
};

// ONNX's own.
inline bool is_own(const Node& node) { return node.domain.empty() || node.domain == "ai.onnx"; }
// An attribute; `otherwise` where there is none of that kind.
Index integer_of(const Node& node, std::string_view attribute, Index otherwise);

}  // namespace attest::graph
