#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/array.hpp"

namespace attest::graph::test {

// An attribute by name.
struct Attr {
  enum class Form { number, integer, text, integers, tensor, parameter } form = Form::integer;
  std::string name;
  double number = 0;
  std::int64_t integer = 0;
  std::string text;
  std::vector<std::int64_t> integers;
  Array tensor;
};
Attr attr(std::string name, std::int64_t value);
Attr attr(std::string name, double value);
Attr attr(std::string name, const char* value);
Attr attr(std::string name, std::vector<std::int64_t> value);
Attr attr(std::string name, Array value);
// The attribute `of` of the node that calls a function.
Attr parameter(std::string name, std::string of);

struct FileNode {
  std::string op;
  std::vector<std::string> inputs, outputs;
  std::vector<Attr> attributes;
  std::string domain;
};

// A function that a file brings.
struct FileFunction {
  std::string domain, name;
  std::vector<std::string> inputs, outputs;
  std::vector<FileNode> nodes;
  std::vector<Attr> defaults;
  std::int64_t opset = 18;
};

// An axis of an input: a number, or a symbol.
struct Axis {
  Axis(int length) : length(length) {}
  Axis(std::int64_t length) : length(length) {}
  Axis(const char* symbol) : symbol(symbol) {}
  std::int64_t length = -1;
  std::string symbol;
};
struct FileInput {
  std::string name;
  Type type = Type::f32;
  std::vector<Axis> shape;
};

// The place of a tensor's numbers that a file does not hold; the tests write them. An empty text is left out.
struct Outside {
  std::string location, offset, length;
};

// A graph to be written as an ONNX file; tests edit it on the way.
struct File {
  std::vector<FileNode> nodes;
  std::vector<FileInput> inputs, within;
  std::vector<std::pair<std::string, Array>> constants;
  std::vector<std::string> outputs;
  std::vector<FileFunction> functions;
  std::int64_t opset = 18;
  std::map<std::string, Outside> outside;  // tensors by the name of the initialiser or attribute
  bool typed = false;                      // numbers in fields of their type in place of raw bytes

  // Adds a node with one output, of the name given or one of its own; gives that name.
  std::string operator()(std::string op, std::vector<std::string> inputs, std::vector<Attr> attributes = {},
                         std::string output = {});
  std::string constant(Array array, std::string name = {});
  std::string scalar(double value, Type type = Type::f32);
  std::string axes(std::vector<std::int64_t> values);

  [[nodiscard]] std::string bytes() const;
};

}  // namespace attest::graph::test
