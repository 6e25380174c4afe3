#include "graph/raw.hpp"

#include <algorithm>
#include <cstring>

#include "core/tensor.hpp"
#include "graph/shapes.hpp"

namespace attest::graph {
std::size_t bytes_of(Type type, Index count) noexcept {
  return (static_cast<std::size_t>(count) * static_cast<std::size_t>(width_of(type)) + 7) / 8;
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

// Appends `count` elements of less than a byte.
void append_parts(std::string_view raw, std::size_t count, Array& array) {
  const auto bits = static_cast<std::size_t>(width_of(array.type)), each = 8 / bits;
  for (std::size_t i = 0; i < count; ++i)
    array.integers.push_back(wrapped(
        array.type, static_cast<std::uint64_t>(static_cast<unsigned char>(raw[i / each])) >> (i % each * bits)));
}

}  // namespace

void read_raw(std::string_view raw, Array& array) {
  if (is_floating(array.type))
    return with_element(dtype_of(format_of(array.type)), [&](auto element) {
      append<typename decltype(element)::Bits>(raw, array.floats, decltype(element)::decoded);
    });
  if (array.type == Type::boolean)
    return append<std::uint8_t>(raw, array.integers, [](std::uint8_t v) { return v != 0; });
  const auto extended = [type = array.type](auto v) { return wrapped(type, v); };
  switch (width_of(array.type)) {
    case 64:
      return append<std::uint64_t>(raw, array.integers, extended);
    case 32:
      return append<std::uint32_t>(raw, array.integers, extended);
    case 16:
      return append<std::uint16_t>(raw, array.integers, extended);
    case 8:
      return append<std::uint8_t>(raw, array.integers, extended);
    default:
      return append_parts(raw, static_cast<std::size_t>(volume(array.shape)), array);
  }
}

std::string raw_bytes(const Array& array) {
  std::string bytes;
  if (is_floating(array.type))
    with_element(dtype_of(format_of(array.type)), [&](auto element) {
      for (const double v : array.floats) put(bytes, element.encoded(v));
    });
  // The lowest bits of an integer, from the lowest byte on.
  const int bits = width_of(array.type);
  int filled = 8;
  for (const std::int64_t v : array.integers) {
    auto rest = static_cast<std::uint64_t>(v) & (~std::uint64_t{0} >> (64 - bits));
    for (int left = bits; left > 0; left -= 8, rest >>= 8) {
      if (filled == 8) {
        bytes.push_back('\0');
        filled = 0;
      }
      bytes.back() = static_cast<char>(static_cast<unsigned char>(bytes.back()) | (rest & 0xffu) << filled);
      filled += std::min(left, 8);
    }
  }
  return bytes;
}

}  // namespace attest::graph
