#include "graph/raw.hpp"

#include <bit>
#include <cstring>

#include "core/format.hpp"

namespace attest::graph {
namespace {

// The little-endian number of type T at `from`.
template <class T>
T number_at(const char* from) noexcept {
  T number;
  std::memcpy(&number, from, sizeof number);
  static_assert(std::endian::native == std::endian::little);
  return number;
}

template <class T>
void put(std::string& bytes, T number) {
  char raw[sizeof number];
  std::memcpy(raw, &number, sizeof number);
  bytes.append(raw, sizeof number);
}

}  // namespace

std::size_t bytes_of(Type type) noexcept {
  constexpr std::size_t bytes[] = {2, 2, 4, 8, 4, 8, 1, 1, 1};
  return bytes[static_cast<int>(type)];
}

void read_raw(std::string_view raw, Array& array) {
  const std::size_t step = bytes_of(array.type), count = raw.size() / step;
  if (is_floating(array.type))
    array.floats.reserve(count);
  else
    array.integers.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    const char* const at = raw.data() + i * step;
    switch (array.type) {
      case Type::f16:
        array.floats.push_back(decode_f16(number_at<std::uint16_t>(at)));
        break;
      case Type::bf16:
        array.floats.push_back(decode_bf16(number_at<std::uint16_t>(at)));
        break;
      case Type::f32:
        array.floats.push_back(static_cast<double>(number_at<float>(at)));
        break;
      case Type::f64:
        array.floats.push_back(number_at<double>(at));
        break;
      case Type::i32:
        array.integers.push_back(number_at<std::int32_t>(at));
        break;
      case Type::i64:
        array.integers.push_back(number_at<std::int64_t>(at));
        break;
      case Type::boolean:
        array.integers.push_back(*at != 0);
        break;
      case Type::u8:
        array.integers.push_back(number_at<std::uint8_t>(at));
        break;
      case Type::i8:
        array.integers.push_back(number_at<std::int8_t>(at));
        break;
    }
  }
}

std::string raw_bytes(const Array& array) {
  std::string bytes;
  for (const double v : array.floats) {
    if (array.type == Type::f16) put(bytes, encode_f16(v));
    if (array.type == Type::bf16) put(bytes, encode_bf16(v));
    if (array.type == Type::f32) put(bytes, static_cast<float>(v));
    if (array.type == Type::f64) put(bytes, v);
  }
  for (const std::int64_t v : array.integers) {
    if (array.type == Type::i32) put(bytes, static_cast<std::int32_t>(v));
    if (array.type == Type::i64) put(bytes, v);
    if (array.type == Type::boolean || array.type == Type::u8 || array.type == Type::i8)
      put(bytes, static_cast<std::uint8_t>(v));
  }
  return bytes;
}

}  // namespace attest::graph
