#pragma once
#include <bit>
#include <cstddef>
#include <cstring>
#include <string>
#include <string_view>

#include "graph/array.hpp"

// Elements as files and runtimes have them: in their type's own format, little-endian, row-major.
namespace attest::graph {

// The little-endian number of type T at `from`.
template <class T>
T number_at(const char* from) noexcept {
  T number;
  std::memcpy(&number, from, sizeof number);
  static_assert(std::endian::native == std::endian::little);
  return number;
}

// Appends the lowest `count` bytes of a number.
template <class T>
void put(std::string& bytes, T number, std::size_t count = sizeof(T)) {
  char own[sizeof number];
  std::memcpy(own, &number, sizeof number);
  static_assert(std::endian::native == std::endian::little);
  bytes.append(own, count);
}

// Bytes of `count` elements.
std::size_t bytes_of(Type type, Index count) noexcept;
// The bytes of all lanes of an array.
std::string raw_bytes(const Array& array);
// Takes the elements of an array from `raw`, which holds as many as its shape has; its type says what they are.
void read_raw(std::string_view raw, Array& array);

}  // namespace attest::graph
