#include "graph/stored.hpp"

#include <string>
#include <utility>

#include "graph/raw.hpp"
#include "graph/shapes.hpp"

namespace attest::graph {

Stored::Stored(const Array& array) : type(array.type), shape(array.shape) {
  auto bytes = std::make_shared<const std::string>(raw_bytes(array));
  bytes_ = *bytes;
  owner_ = std::move(bytes);
}

Stored::Stored(Type type, std::vector<Index> shape, std::string_view bytes, std::shared_ptr<const void> owner)
    : type(type), shape(std::move(shape)), bytes_(bytes), owner_(std::move(owner)) {}

Index Stored::size() const noexcept { return volume(shape); }

Array Stored::array() const {
  Array array{type, shape, 1, {}, {}};
  read_raw(bytes_, array);
  return array;
}

}  // namespace attest::graph
