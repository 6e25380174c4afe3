#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "core/format.hpp"
#include "graph/raw.hpp"
#include "graph/wire.hpp"

namespace attest::graph {

namespace {

constexpr int data_types[] = {10, 16, 1, 11, 6, 7, 9, 2, 3};  // by Type

}  // namespace

int data_type(Type type) noexcept { return data_types[static_cast<int>(type)]; }

std::optional<Type> type_numbered(std::int64_t data_type) noexcept {
  const auto* const found = std::ranges::find(data_types, data_type);
  if (found == std::end(data_types)) return std::nullopt;
  return static_cast<Type>(found - data_types);
}

Type type_of(std::int64_t data_type, std::string_view what) {
  if (const std::optional<Type> known = type_numbered(data_type)) return *known;
  constexpr std::string_view others[] = {"undefined", "", "", "", "uint16", "",       "",          "",
                                         "string",    "", "", "", "uint32", "uint64", "complex64", "complex128"};
  const bool named = data_type >= 0 && data_type < static_cast<std::int64_t>(std::size(others));
  throw Fault{
      fmt::format("{} is of type {}, which attest does not evaluate: float16, bfloat16, float32, float64, int32, "
                  "int64, uint8, int8 and bool are",
                  what, named ? std::string(others[data_type]) : fmt::format("number {} of ONNX's list", data_type))};
}

namespace {

// One number of the field int32_data, which holds 16-bit floats as their bits.
void take_int32(std::int32_t number, Array& array) {
  const auto bits = static_cast<std::uint16_t>(static_cast<std::uint32_t>(number) & 0xffffu);
  if (array.type == Type::f16)
    array.floats.push_back(decode_f16(bits));
  else if (array.type == Type::bf16)
    array.floats.push_back(decode_bf16(bits));
  else
    array.integers.push_back(array.type == Type::boolean ? (number != 0) : number);
}

// The number of the typed field that holds numbers of a type.
std::uint32_t field_of(Type type) noexcept {
  constexpr std::uint32_t fields[] = {5, 5, 4, 10, 5, 7, 5, 5, 5};
  return fields[static_cast<int>(type)];
}

// The numbers of a typed field, packed or one by one. `array` has its type.
void read_typed(Wire wire, Array& array) {
  const std::uint32_t wanted = field_of(array.type);
  while (wire.next()) {
    if (wire.tag() != wanted) {
      wire.skip();
      continue;
    }
    switch (wire.tag_and_type()) {
      case bytes_field(4):
        for (const float number : wire.get_packed_float()) array.floats.push_back(static_cast<double>(number));
        break;
      case field(4, Kind::fixed32):
        array.floats.push_back(static_cast<double>(wire.get_float()));
        break;
      case bytes_field(10):
        for (const double number : wire.get_packed_double()) array.floats.push_back(number);
        break;
      case field(10, Kind::fixed64):
        array.floats.push_back(wire.get_double());
        break;
      case bytes_field(5):
        for (const std::int32_t number : wire.get_packed_int32()) take_int32(number, array);
        break;
      case number_field(5):
        take_int32(wire.get_int32(), array);
        break;
      case bytes_field(7):
        for (const std::int64_t number : wire.get_packed_int64()) array.integers.push_back(number);
        break;
      case number_field(7):
        array.integers.push_back(wire.get_int64());
        break;
      default:
        wire.skip();
    }
  }
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
  if (!is_raw) read_typed(whole, array);
  const auto held =
      static_cast<Index>(is_raw ? raw.size() / bytes_of(array.type) : array.floats.size() + array.integers.size());
  Index stated = 1;
  for (const Index length : array.shape) {
    if (length < 0) throw Fault{fmt::format("{} has an axis of length {}", what, length)};
    const bool past = length > 0 && stated > std::numeric_limits<Index>::max() / length;
    if (past && std::find(array.shape.begin(), array.shape.end(), 0) == array.shape.end())
      throw Fault{fmt::format("{} has the shape {}, more elements than can be counted", what, shape_text(array.shape))};
    stated = past ? 0 : stated * length;
  }
  const bool whole_numbers = !is_raw || raw.size() % bytes_of(array.type) == 0;
  if (stated != held || !whole_numbers)
    throw Fault{fmt::format("{} has the shape {} and {} numbers", what, shape_text(array.shape), held)};
  return is_raw ? Stored(array.type, array.shape, raw, owner) : Stored(array);
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
