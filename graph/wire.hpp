#pragma once
#include <cstdint>
#include <memory>
#include <protozero/pbf_reader.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "graph/model.hpp"

namespace attest::graph {

// Fields of a message are told by number and kind together: a field that comes in another kind than its own is one that
// is not known, as protobuf has it, and is passed over.
using Wire = protozero::pbf_reader;
using Kind = protozero::pbf_wire_type;
constexpr std::uint32_t field(std::uint32_t number, Kind kind) noexcept {
  return protozero::tag_and_type(number, kind);
}
constexpr std::uint32_t number_field(std::uint32_t number) noexcept { return field(number, Kind::varint); }
constexpr std::uint32_t bytes_field(std::uint32_t number) noexcept { return field(number, Kind::length_delimited); }

inline std::string text(Wire& wire) {
  const auto view = wire.get_view();
  return {view.data(), view.size()};
}
inline std::string_view view(Wire& wire) {
  const auto bytes = wire.get_view();
  return {bytes.data(), bytes.size()};
}

// A file's bytes, which all that is read of them keeps.
using SharedBytes = std::shared_ptr<const std::string>;

// The rest of the file's sentence: "model.onnx: " + why.
struct Fault {
  std::string why;
};

inline constexpr int deepest = 32;  // graphs in each other, and functions that call each other

// The type of such a number (type_numbered). Throws Fault with `what` where Type has none.
Type type_of(std::int64_t data_type, std::string_view what);

// A TensorProto, and its name; `owner` keeps the bytes of the message. Throws Fault, or protozero::exception where the
// bytes are no message.
Stored read_tensor(Wire wire, std::string& name, const SharedBytes& owner);

// An AttributeProto of node `where`, and its name. Throws as read_tensor.
Attribute read_attribute(Wire wire, std::string_view where, std::string& name, const SharedBytes& owner);

}  // namespace attest::graph
