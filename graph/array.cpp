#include "graph/array.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "core/error.hpp"

namespace attest::graph {

std::string_view name(Type type) noexcept {
  constexpr std::string_view names[] = {"float16", "bfloat16", "float32", "float64", "int32",
                                        "int64",   "bool",     "uint8",   "int8"};
  return names[static_cast<int>(type)];
}

std::pair<std::int64_t, std::int64_t> range_of(Type type) noexcept {
  const auto of = []<class T>(T) -> std::pair<std::int64_t, std::int64_t> {
    return {std::numeric_limits<T>::min(), std::numeric_limits<T>::max()};
  };
  switch (type) {
    case Type::i32:
      return of(std::int32_t{});
    case Type::u8:
      return of(std::uint8_t{});
    case Type::i8:
      return of(std::int8_t{});
    case Type::boolean:
      return {0, 1};
    default:
      return of(std::int64_t{});
  }
}

Format format_of(Type type) noexcept {
  constexpr Format formats[] = {Format::f16, Format::bf16, Format::f32, Format::f64};
  return formats[static_cast<int>(type)];
}

Index elements(std::span<const Index> shape, Index most, std::string_view what) {
  Index count = 1;
  bool past = false;
  for (const Index length : shape) {
    if (length < 0) throw usage_error(fmt::format("{} has an axis of length {}", what, length));
    past = past || (length > 0 && count > most / length);
    if (!past) count *= length;
  }
  // An axis of length 0 leaves nothing, however long the others are.
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  if (past || count > most)
    throw usage_error(fmt::format("{} has the shape {}, more than {} elements", what, shape_text(shape), most));
  return count;
}

std::string shape_text(std::span<const Index> shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

Index Array::size() const noexcept {
  const auto all = static_cast<Index>(is_floating(type) ? floats.size() : integers.size());
  return all / lanes;
}

namespace {

template <class T>
std::span<T> lane_of(std::span<T> all, Index lanes, Index index) noexcept {
  const std::size_t size = all.size() / static_cast<std::size_t>(lanes);
  return all.subspan(lanes == 1 ? 0 : static_cast<std::size_t>(index) * size, size);
}

}  // namespace

std::span<const double> Array::lane(Index index) const noexcept {
  return lane_of(std::span<const double>(floats), lanes, index);
}
std::span<double> Array::lane(Index index) noexcept { return lane_of(std::span<double>(floats), lanes, index); }
std::span<const std::int64_t> Array::integer_lane(Index index) const noexcept {
  return lane_of(std::span<const std::int64_t>(integers), lanes, index);
}
std::span<std::int64_t> Array::integer_lane(Index index) noexcept {
  return lane_of(std::span<std::int64_t>(integers), lanes, index);
}

Array zeros(Type type, std::vector<Index> shape, Index lanes) {
  Array array{type, std::move(shape), lanes, {}, {}};
  std::size_t count = static_cast<std::size_t>(lanes);
  for (const Index length : array.shape) count *= static_cast<std::size_t>(length);
  if (is_floating(type))
    array.floats.resize(count);
  else
    array.integers.resize(count);
  return array;
}

Array floats(Type type, std::vector<Index> shape, std::vector<double> values) {
  return {type, std::move(shape), 1, std::move(values), {}};
}

Array integers(Type type, std::vector<Index> shape, std::vector<std::int64_t> values) {
  return {type, std::move(shape), 1, {}, std::move(values)};
}

}  // namespace attest::graph
