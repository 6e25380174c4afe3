#include "graph/weights.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <fstream>
#include <optional>
#include <protozero/pbf_writer.hpp>

#include "core/error.hpp"
#include "core/number_text.hpp"
#include "graph/wire.hpp"

namespace attest::graph {
namespace {

namespace fs = std::filesystem;
using Writer = protozero::pbf_writer;

constexpr std::uintmax_t most_bytes = std::uintmax_t{1} << 31;

// The messages of onnx.proto3 on the way to a TensorProto, and the fields in which they have one another.
enum class Message : std::uint8_t { model, graph, function, node, attribute, tensor };
std::optional<Message> within(Message message, std::uint32_t field) {
  struct Row {
    Message message;
    std::uint32_t field;
    Message inner;
  };
  using enum Message;
  constexpr Row rows[] = {{model, 7, graph},       {model, 25, function}, {graph, 1, node},       {graph, 5, tensor},
                          {function, 7, node},     {node, 5, attribute},  {attribute, 5, tensor}, {attribute, 6, graph},
                          {attribute, 10, tensor}, {attribute, 11, graph}};
  for (const Row& row : rows)
    if (row.message == message && row.field == field) return row.inner;
  return std::nullopt;
}

void copy_field(Wire& wire, Writer& out) {
  switch (wire.wire_type()) {
    case Kind::varint:
      out.add_uint64(wire.tag(), wire.get_uint64());
      break;
    case Kind::fixed32:
      out.add_fixed32(wire.tag(), wire.get_fixed32());
      break;
    case Kind::fixed64:
      out.add_fixed64(wire.tag(), wire.get_fixed64());
      break;
    case Kind::length_delimited: {
      const std::uint32_t tag = wire.tag();
      out.add_bytes(tag, wire.get_view());
      break;
    }
    default:
      wire.skip();
  }
}

constexpr int deepest_message = 3 * deepest + 3;  // a graph, a node and an attribute for each

// The place of a tensor's numbers.
struct Place {
  std::string name, location;
  std::optional<std::string> offset, length;
  bool outside = false;
};

Place place_of(Wire tensor) {
  Place place;
  while (tensor.next()) {
    switch (tensor.tag_and_type()) {
      case bytes_field(8):
        place.name = text(tensor);
        break;
      case bytes_field(13): {
        std::string key, value;
        for (Wire entry = tensor.get_message(); entry.next();) {
          if (entry.tag_and_type() == bytes_field(1))
            key = text(entry);
          else if (entry.tag_and_type() == bytes_field(2))
            value = text(entry);
          else
            entry.skip();
        }
        if (key == "location") place.location = value;
        if (key == "offset") place.offset = value;
        if (key == "length") place.length = value;
        break;
      }
      case number_field(14):
        place.outside = tensor.get_int32() == 1;
        break;
      default:
        tensor.skip();
    }
  }
  return place;
}

class Weights {
 public:
  explicit Weights(const fs::path& model) : folder_(canonical(fs::absolute(model).parent_path())) {}

  void copy(Message message, Wire from, Writer& to, int depth = 0) {
    if (depth > deepest_message) throw Fault{"its graphs lie too deep in each other"};
    const Place place = message == Message::tensor ? place_of(from) : Place{};
    while (from.next()) {
      const auto inner = from.wire_type() == Kind::length_delimited ? within(message, from.tag()) : std::nullopt;
      if (inner) {
        const std::uint32_t tag = from.tag();
        const auto view = from.get_view();
        if (view.empty()) {  // a writer of nothing writes nothing
          to.add_bytes(tag, view);
          continue;
        }
        Writer nested(to, tag);
        copy(*inner, Wire(view), nested, depth + 1);
      } else if (place.outside && (from.tag() == 13 || from.tag() == 14 || from.tag() == 9)) {
        from.skip();
      } else {
        copy_field(from, to);
      }
    }
    if (place.outside) to.add_bytes(9, bytes_at(place));
  }

 private:
  std::string bytes_at(const Place& place) {
    const std::string what = fmt::format("tensor '{}' lies in the file '{}'", place.name, place.location);
    const fs::path stated = place.location, file = canonical(folder_ / stated);
    const fs::path from_folder = file.lexically_relative(folder_);
    if (stated.empty() || stated.is_absolute() || from_folder.empty() || *from_folder.begin() == "..")
      throw Fault{what +
                  ", which is not in the folder of the model: copy it there, and save the model again "
                  "(onnx.save, save_as_external_data)"};
    std::error_code error;
    if (!fs::is_regular_file(file, error))
      throw Fault{fmt::format("{}, which is not in {}: put it beside the model", what, folder_.string())};
    const std::uintmax_t size = fs::file_size(file), from = number(place.offset, 0, what);
    const std::uintmax_t count = number(place.length, from < size ? size - from : 0, what);
    if (from > size || count > size - from)
      throw Fault{fmt::format(
          "{}, {} bytes from byte {} on, and that has {} bytes: it is cut short, or another model's; copy or "
          "export it again",
          what, count, from, size)};
    taken_ += count;
    if (taken_ > most_bytes)
      throw Fault{fmt::format("its weights are more than {} bytes: attest asks runtimes for models of at most as many",
                              most_bytes)};
    std::string bytes(count, '\0');
    std::ifstream stream(file, std::ios::binary);
    stream.seekg(static_cast<std::streamoff>(from));
    stream.read(bytes.data(), static_cast<std::streamsize>(count));
    if (!stream) throw Fault{what + ", which cannot be read"};
    return bytes;
  }

  // Follows links as far as there are any.
  static fs::path canonical(const fs::path& path) {
    std::error_code error;
    const fs::path found = fs::weakly_canonical(path, error);
    return error ? path.lexically_normal() : found;
  }

  static std::uintmax_t number(const std::optional<std::string>& stated, std::uintmax_t otherwise,
                               const std::string& what) {
    if (!stated) return otherwise;
    const auto value = parse_whole<std::uintmax_t>(*stated);
    if (!value) throw Fault{fmt::format("{} at '{}', which is no number of bytes", what, *stated)};
    return *value;
  }

  fs::path folder_;
  std::uintmax_t taken_ = 0;
};

// Tells if a message has a tensor that lies outside.
bool has_any(Message message, Wire from, int depth = 0) {
  if (message == Message::tensor) return place_of(from).outside;
  while (from.next()) {
    const auto inner = from.wire_type() == Kind::length_delimited ? within(message, from.tag()) : std::nullopt;
    if (!inner)
      from.skip();
    else if (depth < deepest_message && has_any(*inner, from.get_message(), depth + 1))
      return true;
  }
  return false;
}

}  // namespace

std::string with_weights(std::string bytes, const std::filesystem::path& file) {
  const Wire whole{protozero::data_view{bytes.data(), bytes.size()}};
  try {
    if (!has_any(Message::model, whole)) return bytes;
    std::string all;
    Writer out(all);
    Weights(file).copy(Message::model, whole, out);
    return all;
  } catch (const Fault& fault) {
    throw usage_error(fmt::format("{}: {}", file.string(), fault.why));
  } catch (const protozero::exception&) {
    return bytes;  // read_model says what is wrong with them
  }
}

}  // namespace attest::graph
