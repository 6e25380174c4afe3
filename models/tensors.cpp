#include "models/tensors.hpp"

#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "core/error.hpp"
#include "graph/raw.hpp"

namespace attest::models {
namespace {

// Both lists begin with f16, bf16, f32, f64, i32, i64, boolean, u8 and i8.
static_assert(static_cast<int>(NamedArray::Type::boolean) == static_cast<int>(graph::Type::boolean));
static_assert(static_cast<int>(NamedArray::last_of_models) == static_cast<int>(graph::Type::i8));
static_assert(static_cast<int>(NamedArray::Type::i64) == static_cast<int>(graph::Type::i64));
static_assert(static_cast<int>(NamedArray::Type::f16) == static_cast<int>(graph::Type::f16));

}  // namespace

NamedArray named(std::string name, const graph::Array& array) {
  const std::string raw = graph::raw_bytes(array);
  NamedArray result{std::move(name), static_cast<NamedArray::Type>(array.type), "", array.shape,
                    std::vector<std::byte>(raw.size())};
  if (!raw.empty()) std::memcpy(result.bytes.data(), raw.data(), raw.size());
  return result;
}

graph::Array array_of(const NamedArray& array) {
  if (array.type > NamedArray::last_of_models)
    throw usage_error(fmt::format("'{}' is of type {}, which no graph has", array.name, array.descr));
  graph::Array result{static_cast<graph::Type>(array.type), array.shape, 1, {}, {}};
  graph::read_raw({reinterpret_cast<const char*>(array.bytes.data()), array.bytes.size()}, result);
  return result;
}

std::string npy_bytes(const graph::Array& array) {
  constexpr std::string_view descrs[] = {"<f2", "<u2", "<f4", "<f8", "<i4", "<i8", "|b1", "|u1", "|i1"};
  return npy_head(descrs[static_cast<int>(array.type)], array.shape) + graph::raw_bytes(array);
}

void NpzFile::add(std::string_view name, const graph::Array& array) {
  writer_.add(fmt::format("{}.npy", name), npy_bytes(array));
}

}  // namespace attest::models
