#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>

#include "graph/raw.hpp"
#include "graph/wire.hpp"

namespace attest::graph {

Type type_of(std::int64_t data_type, std::string_view what) {
  if (const std::optional<Type> known = type_numbered(data_type)) return *known;
  const std::string_view other = data_type == 8 ? "string" : data_type == 14 ? "complex64" : "complex128";
  const bool named = data_type == 8 || data_type == 14 || data_type == 15;
  throw Fault{fmt::format("{} is of type {}, which attest does not evaluate: {} are", what,
                          named ? std::string(other) : fmt::format("number {} of ONNX's list", data_type),
                          type_names())};
}

namespace {

// The numbers of the typed field of a type, packed or one by one, as raw_data would have them. The field int32_data has
// floats of 16 bits and less as their bits, and elements below a byte side by side in one.
std::string read_typed(Wire wire, Type type) {
  std::string raw;
  const std::size_t bytes = bytes_of(type, 1);
  const auto int32 = [&](std::int32_t number) {
    put(raw, type == Type::boolean ? std::int32_t{number != 0} : number, bytes);
  };
  std::uint32_t wanted = 5;
  if (type == Type::f32) wanted = 4;
  if (type == Type::f64) wanted = 10;
  if (type == Type::i64) wanted = 7;
  if (type == Type::u32 || type == Type::u64) wanted = 11;
  while (wire.next()) {
    if (wire.tag() != wanted) {
      wire.skip();
      continue;
    }
    switch (wire.tag_and_type()) {
      case bytes_field(4):
        for (const float number : wire.get_packed_float()) put(raw, number);
        break;
      case field(4, Kind::fixed32):
        put(raw, wire.get_float());
        break;
      case bytes_field(10):
        for (const double number : wire.get_packed_double()) put(raw, number);
        break;
      case field(10, Kind::fixed64):
        put(raw, wire.get_double());
        break;
      case bytes_field(5):
        for (const std::int32_t number : wire.get_packed_int32()) int32(number);
        break;
      case number_field(5):
        int32(wire.get_int32());
        break;
      case bytes_field(7):
        for (const std::int64_t number : wire.get_packed_int64()) put(raw, number);
        break;
      case number_field(7):
        put(raw, wire.get_int64());
        break;
      case bytes_field(11):
        for (const std::uint64_t number : wire.get_packed_uint64()) put(raw, number, bytes);
        break;
      case number_field(11):
        put(raw, wire.get_uint64(), bytes);
        break;
      default:
        wire.skip();
    }
  }
  return raw;
}

}  // namespace

Stored read_tensor(Wire wire, std::string& name, const SharedBytes& owner) {
  const Wire whole = wire;
  Array array;
  std::int64_t data_type = 0;
  std::string_view raw;
  bool is_raw = false, external = false;
  while (wire.next()) {
    switch (wire.tag_and_type()) {
      case bytes_field(1):
        for (const std::int64_t length : wire.get_packed_int64()) array.shape.push_back(length);
        break;
      case number_field(1):
        array.shape.push_back(wire.get_int64());
        break;
      case number_field(2):
        data_type = wire.get_int32();
        break;
      case bytes_field(8):
        name = text(wire);
        break;
      case bytes_field(9):
        raw = view(wire);
        is_raw = true;
        break;
      case number_field(14):
        external = external || wire.get_int32() == 1;
        break;
      default:
        wire.skip();
    }
  }
  const std::string what = fmt::format("tensor '{}'", name);
  if (external)
    throw Fault{
        what +
        " lies in a file of its own, and there is nothing beside the model here: store its numbers in the model "
        "(onnx.save without save_as_external_data)"};
  array.type = type_of(data_type, what);
  std::shared_ptr<const std::string> typed;
  if (!is_raw) {
    typed = std::make_shared<const std::string>(read_typed(whole, array.type));
    raw = *typed;
  }
  Index stated = 1;
  for (const Index length : array.shape) {
    if (length < 0) throw Fault{fmt::format("{} has an axis of length {}", what, length)};
    const bool past = length > 0 && stated > std::numeric_limits<Index>::max() / length;
    if (past && std::find(array.shape.begin(), array.shape.end(), 0) == array.shape.end())
      throw Fault{fmt::format("{} has the shape {}, more elements than can be counted", what, shape_text(array.shape))};
    stated = past ? 0 : stated * length;
  }
  const auto held = static_cast<Index>(raw.size()) * 8 / width_of(array.type);
  if (stated > held || raw.size() != bytes_of(array.type, stated))
    throw Fault{fmt::format("{} has the shape {} and {} numbers", what, shape_text(array.shape), held)};
  return {array.type, array.shape, raw, is_raw ? owner : typed};
}

Attribute read_attribute(Wire wire, std::string_view where, std::string& name, const SharedBytes& owner) {
  // ONNX's AttributeProto.AttributeType. Files from before it was stated leave it out: the field that is there says it.
  enum Form : std::int64_t {
    none = 0,
    number = 1,
    integer = 2,
    string = 3,
    tensor = 4,
    numbers = 6,
    integers = 7,
    strings = 8
  };
  std::int64_t form = none, only = none;
  std::string parameter;
  double f = 0;
  std::int64_t i = 0;
  std::string s;
  Stored t;
  std::vector<double> many_f;
  std::vector<std::int64_t> many_i;
  std::vector<std::string> many_s;
  const auto holds = [&only](Form kind) { only = kind; };
  while (wire.next()) {
    switch (wire.tag_and_type()) {
      case bytes_field(1):
        name = text(wire);
        break;
      case field(2, Kind::fixed32):
        f = static_cast<double>(wire.get_float());
        holds(number);
        break;
      case number_field(3):
        i = wire.get_int64();
        holds(integer);
        break;
      case bytes_field(4):
        s = text(wire);
        holds(string);
        break;
      case bytes_field(5): {
        std::string inner;
        t = read_tensor(wire.get_message(), inner, owner);
        holds(tensor);
        break;
      }
      case bytes_field(7):
        for (const float one : wire.get_packed_float()) many_f.push_back(static_cast<double>(one));
        holds(numbers);
        break;
      case field(7, Kind::fixed32):
        many_f.push_back(static_cast<double>(wire.get_float()));
        holds(numbers);
        break;
      case bytes_field(8):
        for (const std::int64_t one : wire.get_packed_int64()) many_i.push_back(one);
        holds(integers);
        break;
      case number_field(8):
        many_i.push_back(wire.get_int64());
        holds(integers);
        break;
      case bytes_field(9):
        many_s.push_back(text(wire));
        holds(strings);
        break;
      case number_field(20):
        form = wire.get_int32();
        break;
      case bytes_field(21):
        parameter = text(wire);
        break;
      default:
        wire.skip();
    }
  }
  if (!parameter.empty()) return Parameter{parameter};
  switch (form == none ? only : form) {
    case number:
      return f;
    case integer:
      return i;
    case string:
      return s;
    case tensor:
      if (only != tensor) throw Fault{fmt::format("{}: attribute '{}' lacks its tensor", where, name)};
      return t;
    case numbers:
      return many_f;
    case integers:
      return many_i;
    case strings:
      return many_s;
    case 5:
    case 10:
      return Unread{"a graph"};
    case 9:
    case 11:
    case 12:
      return Unread{"sparse tensors"};
    default:
      return Unread{"neither numbers, texts nor a tensor"};
  }
}

}  // namespace attest::graph
