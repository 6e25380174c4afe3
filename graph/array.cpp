#include "graph/array.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/error.hpp"

namespace attest::graph {

namespace {

struct Traits {
  std::string_view name;
  int data_type;  // TensorProto.DataType
  int bits;
  bool below_zero = false;
};
constexpr Traits traits[] = {
    {"float16", 10, 16},
    {"bfloat16", 16, 16},
    {"float32", 1, 32},
    {"float64", 11, 64},
    {"int32", 6, 32, true},
    {"int64", 7, 64, true},
    {"bool", 9, 8},
    {"uint8", 2, 8},
    {"int8", 3, 8, true},
    {"uint16", 4, 16},
    {"int16", 5, 16, true},
    {"uint32", 12, 32},
    {"uint64", 13, 64},
    {"uint4", 21, 4},
    {"int4", 22, 4, true},
    {"uint2", 25, 2},
    {"int2", 26, 2, true},
    {"float8e4m3fn", 17, 8},
    {"float8e4m3fnuz", 18, 8},
    {"float8e5m2", 19, 8},
    {"float8e5m2fnuz", 20, 8},
    {"float8e8m0", 24, 8},
    {"float4e2m1", 23, 4},
};  // by Type

const Traits& traits_of(Type type) noexcept { return traits[static_cast<int>(type)]; }

}  // namespace

std::string_view name(Type type) noexcept { return traits_of(type).name; }
int width_of(Type type) noexcept { return traits_of(type).bits; }
bool is_signed(Type type) noexcept { return traits_of(type).below_zero; }
int data_type(Type type) noexcept { return traits_of(type).data_type; }

std::string type_names() {
  std::string names;
  for (const Traits& one : traits) names += (names.empty() ? "" : ", ") + std::string(one.name);
  return names;
}

std::optional<Type> type_numbered(std::int64_t data_type) noexcept {
  const auto* const found = std::ranges::find(traits, data_type, &Traits::data_type);
  if (found == std::end(traits)) return std::nullopt;
  return static_cast<Type>(found - traits);
}

std::pair<std::int64_t, std::int64_t> range_of(Type type) noexcept {
  if (type == Type::boolean) return {0, 1};
  const int digits = std::min(width_of(type) - (is_signed(type) ? 1 : 0), 63);
  const auto most = static_cast<std::int64_t>((std::uint64_t{1} << digits) - 1);
  return {is_signed(type) ? -most - 1 : 0, most};
}

std::int64_t wrapped(Type type, std::uint64_t bits) noexcept {
  const int above = 64 - width_of(type);
  bits <<= above;
  return is_signed(type) ? static_cast<std::int64_t>(bits) >> above : static_cast<std::int64_t>(bits >> above);
}

Format format_of(Type type) noexcept { return stored_formats[static_cast<std::size_t>(type)]; }

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
