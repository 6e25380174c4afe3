#include "graph/read.hpp"

#include <fmt/format.h>

#include <fstream>
#include <utility>

#include "core/error.hpp"
#include "graph/link.hpp"
#include "graph/weights.hpp"
#include "graph/wire.hpp"

namespace attest::graph {
namespace {

Dimension read_dimension(Wire wire, std::string_view what) {
  Dimension dimension;
  while (wire.next()) {
    switch (wire.tag_and_type()) {
      case number_field(1):
        dimension.length = wire.get_int64();
        break;
      case bytes_field(2):
        dimension.symbol = text(wire);
        break;
      default:
        wire.skip();
    }
  }
  // Exporters write lengths of -1 or 0 for what is open; a symbol beside a length is a name of no consequence.
  if (dimension.length && *dimension.length < 1) dimension.length.reset();
  if (dimension.length) dimension.symbol.clear();
  if (dimension.length.value_or(0) > longest_axis)
    throw Fault{fmt::format("{} has an axis of length {}", what, *dimension.length)};
  return dimension;
}

// A TypeProto.Tensor.
void read_tensor_type(Wire wire, StatedValue& value, std::string_view what) {
  while (wire.next()) {
    switch (wire.tag_and_type()) {
      case number_field(1):
        value.data_type = wire.get_int32();
        break;
      case bytes_field(2): {
        value.shape.emplace();
        auto shape = wire.get_message();
        while (shape.next(1, Kind::length_delimited)) value.shape->push_back(read_dimension(shape.get_message(), what));
        break;
      }
      default:
        wire.skip();
    }
  }
}

StatedValue read_value(Wire wire) {
  StatedValue value;
  Wire type;
  bool typed = false;
  while (wire.next()) {
    switch (wire.tag_and_type()) {
      case bytes_field(1):
        value.name = text(wire);
        break;
      case bytes_field(2):
        type = wire.get_message();
        typed = true;
        break;
      default:
        wire.skip();
    }
  }
  while (typed && type.next()) {
    if (type.tag_and_type() == bytes_field(1))
      read_tensor_type(type.get_message(), value, fmt::format("'{}'", value.name));
    else {
      value.is_other = true;
      type.skip();
    }
  }
  return value;
}

StatedGraph read_graph(Wire wire, const SharedBytes& owner, int depth);

StatedNode read_node(Wire wire, const SharedBytes& owner, std::size_t number, int depth) {
  const Wire whole = wire;
  StatedNode node;
  while (wire.next()) {
    switch (wire.tag_and_type()) {
      case bytes_field(1):
        node.inputs.push_back(text(wire));
        break;
      case bytes_field(2):
        node.outputs.push_back(text(wire));
        break;
      case bytes_field(3):
        node.node.name = text(wire);
        break;
      case bytes_field(4):
        node.node.op = text(wire);
        break;
      case bytes_field(7):
        node.node.domain = text(wire);
        break;
      default:
        wire.skip();
    }
  }
  if (node.node.domain == "ai.onnx") node.node.domain.clear();
  const std::string where = described(node.node, number);
  wire = whole;
  while (wire.next(5, Kind::length_delimited)) {
    std::string name;
    const Wire message = wire.get_message();
    auto attribute = read_attribute(message, where, name, owner);
    for (Wire graph = message; std::holds_alternative<Unread>(attribute) && graph.next(6, Kind::length_delimited);)
      node.bodies.insert_or_assign(name, read_graph(graph.get_message(), owner, depth + 1));
    node.node.attributes.insert_or_assign(std::move(name), std::move(attribute));
  }
  return node;
}

StatedGraph read_graph(Wire wire, const SharedBytes& owner, int depth) {
  if (depth > deepest) throw Fault{"its graphs lie too deep in each other"};
  StatedGraph graph;
  while (wire.next()) {
    switch (wire.tag_and_type()) {
      case bytes_field(1):
        graph.nodes.push_back(read_node(wire.get_message(), owner, graph.nodes.size(), depth));
        break;
      case bytes_field(5): {
        std::string name;
        auto array = read_tensor(wire.get_message(), name, owner);
        graph.constants.emplace_back(std::move(name), std::move(array));
        break;
      }
      case bytes_field(11):
        graph.inputs.push_back(read_value(wire.get_message()));
        break;
      case bytes_field(12):
        graph.outputs.push_back(read_value(wire.get_message()));
        break;
      case bytes_field(13):
        graph.within.push_back(read_value(wire.get_message()));
        break;
      case bytes_field(15):
        throw Fault{"it has sparse initialisers, which attest does not read: store them as dense tensors"};
      default:
        wire.skip();
    }
  }
  return graph;
}

// The version of ONNX's own operators that an OperatorSetIdProto states; nothing of another domain.
void read_opset(Wire wire, Index& opset) {
  std::string domain;
  std::int64_t version = 0;
  while (wire.next()) {
    switch (wire.tag_and_type()) {
      case bytes_field(1):
        domain = text(wire);
        break;
      case number_field(2):
        version = wire.get_int64();
        break;
      default:
        wire.skip();
    }
  }
  if (domain.empty() || domain == "ai.onnx") opset = version;
}

StatedFunction read_function(Wire wire, const SharedBytes& owner) {
  StatedFunction function;
  while (wire.next()) {
    switch (wire.tag_and_type()) {
      case bytes_field(1):
        function.name = text(wire);
        break;
      case bytes_field(4):
        function.inputs.push_back(text(wire));
        break;
      case bytes_field(5):
        function.outputs.push_back(text(wire));
        break;
      case bytes_field(7):
        function.nodes.push_back(read_node(wire.get_message(), owner, function.nodes.size(), 0));
        break;
      case bytes_field(9):
        read_opset(wire.get_message(), function.opset);
        break;
      case bytes_field(10):
        function.domain = text(wire);
        break;
      case bytes_field(11): {
        std::string name;
        auto attribute = read_attribute(wire.get_message(), fmt::format("function '{}'", function.name), name, owner);
        function.defaults.insert_or_assign(std::move(name), std::move(attribute));
        break;
      }
      default:
        wire.skip();
    }
  }
  return function;
}

Model read(const SharedBytes& owner) {
  Wire wire{protozero::data_view{owner->data(), owner->size()}};
  Index opset = 0;
  std::vector<StatedFunction> functions;
  Wire graph;
  bool has_graph = false;
  while (wire.next()) {
    switch (wire.tag_and_type()) {
      case bytes_field(7):
        graph = wire.get_message();
        has_graph = true;
        break;
      case bytes_field(8):
        read_opset(wire.get_message(), opset);
        break;
      case bytes_field(25):
        functions.push_back(read_function(wire.get_message(), owner));
        break;
      default:
        wire.skip();
    }
  }
  if (!has_graph) throw Fault{"it has no graph: is it an ONNX model?"};
  if (opset < first_opset || opset > last_opset)
    throw Fault{fmt::format("its operators are those of version {}; attest knows {} to {} (onnx.version_converter)",
                            opset, first_opset, last_opset)};
  StatedGraph stated = read_graph(graph, owner, 0);
  for (const StatedFunction& one : functions)
    if (one.opset != 0 && one.opset != opset)
      throw Fault{
          fmt::format("its function '{}' has operators of version {}, its graph of {}: inline functions before "
                      "(onnx.inliner)",
                      one.name, one.opset, opset)};
  inline_functions(stated, functions);
  Model model = linked(std::move(stated));
  model.opset = opset;
  return model;
}

}  // namespace

Model read_model(std::string_view bytes, std::string_view name) {
  return read_model(std::make_shared<const std::string>(bytes), name);
}

Model read_model(const std::shared_ptr<const std::string>& bytes, std::string_view name) {
  try {
    return read(bytes);
  } catch (const Fault& fault) {
    throw usage_error(fmt::format("{}: {}", name, fault.why));
  } catch (const protozero::exception& damage) {
    throw usage_error(fmt::format("{} is damaged, or no ONNX model ({})", name, damage.what()));
  }
}

Model load_model(const std::filesystem::path& file) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(file, ignored))
    throw usage_error(fmt::format("{}: there is no such file", file.string()));
  std::ifstream stream(file, std::ios::binary);
  std::string bytes(std::filesystem::file_size(file), '\0');
  stream.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (!stream) throw usage_error(fmt::format("{} cannot be read", file.string()));
  return read_model(std::make_shared<const std::string>(with_weights(std::move(bytes), file)), file.string());
}

}  // namespace attest::graph
