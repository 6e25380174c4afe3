#pragma once
#include <memory>
#include <string_view>
#include <vector>

#include "core/tensor.hpp"
#include "graph/array.hpp"
#include "graph/raw.hpp"

namespace attest::graph {

// A tensor of one lane as files have it: elements in their type's own format, little-endian, row-major. Copies share
// the bytes.
class Stored {
 public:
  Stored() = default;
  // Floats are rounded to their type.
  Stored(const Array& array);
  // `bytes`: all elements of the shape, within what `owner` keeps.
  Stored(Type type, std::vector<Index> shape, std::string_view bytes, std::shared_ptr<const void> owner);

  Type type = Type::f32;
  std::vector<Index> shape;

  [[nodiscard]] Index size() const noexcept;
  [[nodiscard]] Index rank() const noexcept { return static_cast<Index>(shape.size()); }
  [[nodiscard]] std::string_view bytes() const noexcept { return bytes_; }
  [[nodiscard]] Array array() const;

 private:
  std::string_view bytes_;
  std::shared_ptr<const void> owner_;
};

// Calls f with a function from an element's number to the element, of a floating-point type.
template <class F>
auto with_floats(const Stored& stored, F f) {
  const char* const from = stored.bytes().data();
  return with_element(dtype_of(format_of(stored.type)), [&](auto element) {
    using Bits = typename decltype(element)::Bits;
    return f([from](Index i) {
      return decltype(element)::decoded(number_at<Bits>(from + i * static_cast<Index>(sizeof(Bits))));
    });
  });
}

}  // namespace attest::graph
