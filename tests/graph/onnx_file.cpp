#include "tests/graph/onnx_file.hpp"

#include <protozero/pbf_writer.hpp>

#include "core/format.hpp"
#include "graph/raw.hpp"
#include "graph/wire.hpp"

namespace attest::graph::test {

using Writer = protozero::pbf_writer;

Attr attr(std::string name, std::int64_t value) {
  Attr a;
  a.name = std::move(name);
  a.integer = value;
  return a;
}
Attr attr(std::string name, double value) {
  Attr a = attr(std::move(name), std::int64_t{0});
  a.form = Attr::Form::number;
  a.number = value;
  return a;
}
Attr attr(std::string name, const char* value) {
  Attr a = attr(std::move(name), std::int64_t{0});
  a.form = Attr::Form::text;
  a.text = value;
  return a;
}
Attr attr(std::string name, std::vector<std::int64_t> value) {
  Attr a = attr(std::move(name), std::int64_t{0});
  a.form = Attr::Form::integers;
  a.integers = std::move(value);
  return a;
}
Attr attr(std::string name, Array value) {
  Attr a = attr(std::move(name), std::int64_t{0});
  a.form = Attr::Form::tensor;
  a.tensor = std::move(value);
  return a;
}

namespace {

void write_typed(Writer& out, const Array& array) {
  std::vector<float> singles(array.floats.begin(), array.floats.end());
  std::vector<std::int32_t> small;
  for (const double v : array.floats) small.push_back(array.type == Type::f16 ? encode_f16(v) : encode_bf16(v));
  for (const std::int64_t v : array.integers) small.push_back(static_cast<std::int32_t>(v));
  if (array.type == Type::f32)
    out.add_packed_float(4, singles.begin(), singles.end());
  else if (array.type == Type::f64)
    out.add_packed_double(10, array.floats.begin(), array.floats.end());
  else if (array.type == Type::i64)
    out.add_packed_int64(7, array.integers.begin(), array.integers.end());
  else
    out.add_packed_int32(5, small.begin(), small.end());
}

void write_outside(Writer& out, const Outside& place) {
  const auto entry = [&out](const char* key, const std::string& value) {
    if (value.empty()) return;
    Writer pair(out, 13);
    pair.add_string(1, key);
    pair.add_string(2, value);
  };
  entry("location", place.location);
  entry("offset", place.offset);
  entry("length", place.length);
  out.add_enum(14, 1);
}

void write_tensor(Writer out, const Array& array, const std::string& name, bool typed, const Outside* outside) {
  out.add_packed_int64(1, array.shape.begin(), array.shape.end());
  out.add_int32(2, data_type(array.type));
  if (!name.empty()) out.add_string(8, name);
  if (outside != nullptr)
    write_outside(out, *outside);
  else if (typed)
    write_typed(out, array);
  else
    out.add_bytes(9, raw_bytes(array));
}

using OutsideByName = std::map<std::string, Outside>;

const Outside* place_of(const OutsideByName& outside, const std::string& name) {
  const auto found = outside.find(name);
  return found == outside.end() ? nullptr : &found->second;
}

void write_attribute(Writer out, const Attr& a, const OutsideByName& outside) {
  out.add_string(1, a.name);
  switch (a.form) {
    case Attr::Form::number:
      out.add_float(2, static_cast<float>(a.number));
      out.add_enum(20, 1);
      break;
    case Attr::Form::integer:
      out.add_int64(3, a.integer);
      out.add_enum(20, 2);
      break;
    case Attr::Form::text:
      out.add_bytes(4, a.text);
      out.add_enum(20, 3);
      break;
    case Attr::Form::tensor:
      write_tensor(Writer(out, 5), a.tensor, "", false, place_of(outside, a.name));
      out.add_enum(20, 4);
      break;
    case Attr::Form::parameter:
      out.add_string(21, a.text);
      break;
    case Attr::Form::integers:
      for (const std::int64_t one : a.integers) out.add_int64(8, one);
      out.add_enum(20, 7);
      break;
  }
}

void write_node(Writer out, const FileNode& node, const OutsideByName& outside) {
  for (const auto& name : node.inputs) out.add_string(1, name);
  for (const auto& name : node.outputs) out.add_string(2, name);
  out.add_string(3, node.outputs.empty() ? "" : node.outputs.front());
  out.add_string(4, node.op);
  for (const auto& a : node.attributes) write_attribute(Writer(out, 5), a, outside);
  if (!node.domain.empty()) out.add_string(7, node.domain);
}

void write_input(Writer out, const FileInput& input) {
  out.add_string(1, input.name);
  Writer type(out, 2);
  Writer tensor(type, 1);
  tensor.add_int32(1, data_type(input.type));
  if (input.shape.empty()) {  // a writer of nothing writes nothing
    tensor.add_message(2, std::string());
    return;
  }
  Writer shape(tensor, 2);
  for (const Axis& axis : input.shape) {
    Writer dimension(shape, 1);
    if (axis.symbol.empty())
      dimension.add_int64(1, axis.length);
    else
      dimension.add_string(2, axis.symbol);
  }
}

}  // namespace

Attr parameter(std::string name, std::string of) {
  Attr a = attr(std::move(name), of.c_str());
  a.form = Attr::Form::parameter;
  return a;
}

std::string File::operator()(std::string op, std::vector<std::string> in, std::vector<Attr> attributes,
                             std::string output) {
  if (output.empty()) output = op + "_" + std::to_string(nodes.size());
  nodes.push_back({std::move(op), std::move(in), {output}, std::move(attributes), {}});
  return output;
}

std::string File::constant(Array array, std::string name) {
  if (name.empty()) name = "c" + std::to_string(constants.size());
  constants.emplace_back(name, std::move(array));
  return name;
}

std::string File::scalar(double value, Type type) { return constant(floats(type, {}, {value})); }

std::string File::axes(std::vector<std::int64_t> values) {
  const auto count = static_cast<Index>(values.size());
  return constant(integers(Type::i64, {count}, std::move(values)));
}

std::string File::bytes() const {
  std::string bytes;
  Writer model(bytes);
  model.add_int64(1, 9);
  {
    Writer graph(model, 7);
    for (const auto& node : nodes) write_node(Writer(graph, 1), node, outside);
    graph.add_string(2, "g");
    for (const auto& [name, array] : constants)
      write_tensor(Writer(graph, 5), array, name, typed, place_of(outside, name));
    for (const auto& input : inputs) write_input(Writer(graph, 11), input);
    for (const auto& value : within) write_input(Writer(graph, 13), value);
    for (const auto& name : outputs) {
      Writer value(graph, 12);
      value.add_string(1, name);
    }
  }
  Writer own(model, 8);
  own.add_string(1, "");
  own.add_int64(2, opset);
  own.commit();
  for (const FileFunction& function : functions) {
    Writer out(model, 25);
    out.add_string(1, function.name);
    for (const auto& name : function.inputs) out.add_string(4, name);
    for (const auto& name : function.outputs) out.add_string(5, name);
    for (const auto& node : function.nodes) write_node(Writer(out, 7), node, {});
    Writer used(out, 9);
    used.add_int64(2, function.opset);
    used.commit();
    out.add_string(10, function.domain);
    for (const auto& a : function.defaults) write_attribute(Writer(out, 11), a, {});
  }
  return bytes;
}

}  // namespace attest::graph::test
