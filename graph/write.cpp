#include "graph/write.hpp"

#include <fmt/format.h>

#include <protozero/pbf_writer.hpp>
#include <set>
#include <string_view>

#include "core/error.hpp"
#include "graph/raw.hpp"
#include "graph/wire.hpp"

namespace attest::graph {
namespace {

using Writer = protozero::pbf_writer;

constexpr std::int64_t ir_version = 9;  // the file's format; an older one has all that is written here, too

void write_array(Writer out, const Stored& array, const std::string& name) {
  out.add_packed_int64(1, array.shape.begin(), array.shape.end());
  out.add_int32(2, data_type(array.type));
  if (!name.empty()) out.add_string(8, name);
  out.add_bytes(9, array.bytes().data(), array.bytes().size());
}

void write_body(Writer out, const Body& body, const std::vector<std::string>& values, bool loops);

// Each alternative of an attribute, and the number of its AttributeProto.AttributeType.
struct AttributeWriter {
  Writer& out;
  const std::vector<std::string>& values;
  bool loops = false;  // the node is a Loop

  void operator()(std::int64_t value) const {
    out.add_int64(3, value);
    out.add_enum(20, 2);
  }
  void operator()(double value) const {
    out.add_float(2, static_cast<float>(value));
    out.add_enum(20, 1);
  }
  void operator()(const std::string& value) const {
    out.add_bytes(4, value);
    out.add_enum(20, 3);
  }
  void operator()(const std::vector<std::int64_t>& values) const {
    for (const std::int64_t one : values) out.add_int64(8, one);
    out.add_enum(20, 7);
  }
  void operator()(const std::vector<double>& values) const {
    for (const double one : values) out.add_float(7, static_cast<float>(one));
    out.add_enum(20, 6);
  }
  void operator()(const std::vector<std::string>& values) const {
    for (const std::string& one : values) out.add_bytes(9, one);
    out.add_enum(20, 8);
  }
  void operator()(const Stored& value) const {
    write_array(Writer(out, 5), value, "");
    out.add_enum(20, 4);
  }
  void operator()(const Unread& value) const {
    throw usage_error(fmt::format("an attribute that is {} cannot be written", value.kind));
  }
  void operator()(const Parameter& value) const {
    throw usage_error(fmt::format("the attribute '{}' of a function cannot be written", value.name));
  }
  void operator()(const std::shared_ptr<const Body>& value) const {
    write_body(Writer(out, 6), *value, values, loops);
    out.add_enum(20, 5);
  }
};

const std::string& name_of(const std::vector<std::string>& values, int value) {
  static const std::string none;
  return value < 0 ? none : values[static_cast<std::size_t>(value)];
}

void write_node(Writer out, const Node& node, const std::vector<std::string>& values) {
  for (std::size_t i = 0; i < node.own_inputs(); ++i) out.add_string(1, name_of(values, node.inputs[i]));
  for (const int value : node.outputs) out.add_string(2, name_of(values, value));
  if (!node.name.empty()) out.add_string(3, node.name);
  out.add_string(4, node.op);
  for (const auto& [name, value] : node.attributes) {
    Writer attribute(out, 5);
    attribute.add_string(1, name);
    std::visit(AttributeWriter{attribute, values, node.op == "Loop"}, value);
  }
  if (!node.domain.empty()) out.add_string(7, node.domain);
}

// Values of a body have no types: a runtime finds them, but for the number and the condition that a Loop hands to its own, of which ONNX Runtime wants to
// read that they are scalars.
void write_body(Writer out, const Body& body, const std::vector<std::string>& values, bool loops) {
  for (const Node& node : body.nodes) write_node(Writer(out, 1), node, values);
  out.add_string(2, "body");
  for (const auto& [value, array] : body.constants) write_array(Writer(out, 5), array, name_of(values, value));
  const auto named = [&](std::uint32_t field, int value, std::optional<Type> scalar = {}) {
    Writer one(out, field);
    one.add_string(1, name_of(values, value));
    if (!scalar) return;
    Writer type(one, 2);
    Writer tensor(type, 1);
    tensor.add_int32(1, data_type(*scalar));
    tensor.add_message(2, std::string());
  };
  constexpr Type handed[] = {Type::i64, Type::boolean};
  for (std::size_t i = 0; i < body.inputs.size(); ++i)
    named(11, body.inputs[i], loops && i < std::size(handed) ? std::optional(handed[i]) : std::nullopt);
  for (const int value : body.outputs) named(12, value);
}

class ModelWriter {
 public:
  explicit ModelWriter(const Model& model) : model_(model) {}

  void write_input(Writer out, const Input& input) const {
    out.add_string(1, input.name);
    Writer type(out, 2);
    Writer tensor(type, 1);
    tensor.add_int32(1, data_type(input.type));
    write_shape(tensor, input.shape);
  }

  void write_output(Writer out, const Output& output) const {
    out.add_string(1, name_of(output.value));
    if (!output.type) return;
    Writer type(out, 2);
    Writer tensor(type, 1);
    tensor.add_int32(1, data_type(*output.type));
    write_shape(tensor, std::vector<Dimension>(output.rank));
  }

  [[nodiscard]] const std::string& name_of(int value) const { return graph::name_of(model_.values, value); }

 private:
  static void write_shape(Writer& tensor, const std::vector<Dimension>& dimensions) {
    if (dimensions.empty()) {  // a writer of nothing writes nothing
      tensor.add_message(2, std::string());
      return;
    }
    Writer shape(tensor, 2);
    for (const Dimension& dimension : dimensions) {
      if (!dimension.length && dimension.symbol.empty()) {
        shape.add_message(1, std::string());
        continue;
      }
      Writer one(shape, 1);
      if (dimension.length)
        one.add_int64(1, *dimension.length);
      else
        one.add_string(2, dimension.symbol);
    }
  }

  const Model& model_;
};

}  // namespace

std::string write_model(const Model& model) {
  const ModelWriter writer(model);
  std::string bytes;
  Writer file(bytes);
  file.add_int64(1, ir_version);
  {
    Writer graph(file, 7);
    for (std::size_t i = 0; i < model.nodes.size(); ++i) {
      try {
        write_node(Writer(graph, 1), model.nodes[i], model.values);
      } catch (const Error& error) {
        throw usage_error(fmt::format("{}: {}", described(model.nodes[i], i), error.what()));
      }
    }
    graph.add_string(2, "graph");
    for (const auto& [value, array] : model.constants) write_array(Writer(graph, 5), array, writer.name_of(value));
    for (const Input& input : model.inputs) writer.write_input(Writer(graph, 11), input);
    for (const Output& output : model.outputs) writer.write_output(Writer(graph, 12), output);
  }
  // Versions of the domains: all but ONNX's own have one.
  std::set<std::string_view> domains{""};
  for (const Node& node : model.nodes) domains.insert(node.domain);
  for (const std::string_view domain : domains) {
    Writer version(file, 8);
    version.add_string(1, std::string(domain));
    version.add_int64(2, domain.empty() ? model.opset : 1);
  }
  return bytes;
}

}  // namespace attest::graph
