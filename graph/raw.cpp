#include "graph/raw.hpp"

#include <cstring>
#include <functional>

#include "core/format.hpp"

namespace attest::graph {
namespace {

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

namespace {

// Appends the elements of type T, each as `read` has it.
template <class T, class To, class Read>
void append(std::string_view raw, std::vector<To>& to, Read read) {
  const std::size_t before = to.size(), count = raw.size() / sizeof(T);
  to.resize(before + count);
  for (std::size_t i = 0; i < count; ++i)
    to[before + i] = static_cast<To>(read(number_at<T>(raw.data() + i * sizeof(T))));
}

}  // namespace

void read_raw(std::string_view raw, Array& array) {
  constexpr std::identity same;
  switch (array.type) {
    case Type::f16:
      return append<std::uint16_t>(raw, array.floats, decode_f16);
    case Type::bf16:
      return append<std::uint16_t>(raw, array.floats, decode_bf16);
    case Type::f32:
      return append<float>(raw, array.floats, same);
    case Type::f64:
      return append<double>(raw, array.floats, same);
    case Type::i32:
      return append<std::int32_t>(raw, array.integers, same);
    case Type::i64:
      return append<std::int64_t>(raw, array.integers, same);
    case Type::boolean:
      return append<std::uint8_t>(raw, array.integers, [](std::uint8_t v) { return v != 0; });
    case Type::u8:
      return append<std::uint8_t>(raw, array.integers, same);
    case Type::i8:
      return append<std::int8_t>(raw, array.integers, same);
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
