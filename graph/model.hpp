#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "graph/array.hpp"
#include "graph/stored.hpp"

namespace attest::graph {

// An axis of an input: a fixed length, or one that is open. Open axes of one symbol are equally long; one without a
// symbol is on its own.
struct Dimension {
  std::optional<Index> length;
  std::string symbol;
};

struct Input {
  std::string name;
  Type type = Type::f32;
  std::vector<Dimension> shape;
  int value = 0;
};

struct Output {
  std::string name;
  int value = 0;
  std::optional<Type> type{};  // where it is known and to be written
  std::size_t rank = 0;        // the number of axes, written with it: their lengths are left open
  std::optional<Type> said{};  // a file's own
};

// Says of an output what is known from a result.
inline void state(Output& output, const Array& result) {
  output.type = result.type;
  output.rank = result.shape.size();
}

// The content of an attribute that attest does not read: a sparse tensor, a type.
struct Unread {
  std::string kind;
};
// The attribute of that name of the node that calls a function, in the function's nodes.
struct Parameter {
  std::string name;
};
struct Body;
using Attribute = std::variant<std::int64_t, double, std::string, std::vector<std::int64_t>, std::vector<double>,
                               std::vector<std::string>, Stored, Unread, Parameter, std::shared_ptr<const Body>>;

struct Node {
  std::string name;  // as the file has it, may be empty
  std::string op;
  std::string domain;  // "" is ONNX's own
  std::vector<int>
      inputs;  // values; -1 where an optional one is left out; last those that its graphs read of the graph around them
  std::vector<int> outputs;  // likewise
  std::map<std::string, Attribute, std::less<>> attributes;
  std::size_t captured = 0;  // number of inputs that its graphs alone read

  [[nodiscard]] std::size_t own_inputs() const noexcept { return inputs.size() - captured; }
};
// "node 'scores' (MatMul)"; one without a name by its number in the file's order.
std::string described(const Node& node, std::size_t number);

// The graph of a node of control flow. Its values are numbered with those of the model.
struct Body {
  std::vector<int> inputs;
  std::map<int, Stored> constants;
  std::vector<Node> nodes;  // the order is one of evaluation
  std::vector<int> outputs;
};

// A graph as an ONNX file states it. Values (tensors) are numbered; a node reads values that an input, a constant or an
// earlier node gives, and each value has one giver.
struct Model {
  Index opset = 0;                  // version of ONNX's own operators
  std::vector<std::string> values;  // names
  std::vector<Input> inputs;        // without those that have a constant of the same name as a default
  std::map<int, Stored> constants;  // initialisers, by value
  std::vector<Node> nodes;          // in an order in which they can be evaluated
  std::vector<Output> outputs;
  std::map<int, std::vector<Dimension>> stated;  // shapes of values that nodes give, where the file says them
};

}  // namespace attest::graph
