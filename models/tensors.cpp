#include "models/tensors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/error.hpp"
#include "graph/raw.hpp"

namespace attest::models {
namespace {

// Both lists begin alike, f16 to u64.
static_assert(static_cast<int>(NamedArray::Type::boolean) == static_cast<int>(graph::Type::boolean));
static_assert(static_cast<int>(NamedArray::last_of_models) == static_cast<int>(graph::Type::u64));
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

std::string element_text(std::string_view name, std::span<const Index> shape, Index element) {
  std::string index;
  for (std::size_t k = shape.size(); k-- > 0; element /= std::max<Index>(shape[k], 1))
    index = fmt::format("{}{}{}", element % std::max<Index>(shape[k], 1), index.empty() ? "" : ",", index);
  return fmt::format("{}[{}]", name, index);
}

std::string npy_bytes(const graph::Array& array) {
  return npy_head(descr(static_cast<NamedArray::Type>(array.type)), array.shape) + graph::raw_bytes(array);
}

void NpzFile::add(std::string_view name, const graph::Array& array) {
  writer_.add(fmt::format("{}.npy", name), npy_bytes(array));
}

void NpzFile::add(std::span<const graph::Feeds> before, const graph::Feeds& feeds) {
  for (std::size_t i = 0; i < before.size(); ++i)
    for (const auto& [name, array] : before[i]) add(fmt::format("before.{}.{}", i, name), array);
  for (const auto& [name, array] : feeds) add(name, array);
}

RunsOf runs_from(std::span<const NamedArray> arrays, const graph::Model& model, std::string_view where) {
  const auto holds = [&](const std::string& name) {
    return std::ranges::find(arrays, name, &NamedArray::name) != arrays.end();
  };
  const auto feeds_of = [&](const std::string& prefix) {
    graph::Feeds feeds;
    for (const graph::Input& input : model.inputs) {
      const auto found = std::ranges::find(arrays, prefix + input.name, &NamedArray::name);
      if (found == arrays.end())
        throw usage_error(
            fmt::format("{} does not hold '{}', an input of the graph beside it", where, prefix + input.name));
      NamedArray array = *found;
      array.type = static_cast<NamedArray::Type>(input.type);  // bf16 lies there as uint16
      feeds.emplace(input.name, array_of(array));
    }
    return feeds;
  };
  RunsOf runs{{}, feeds_of("")};
  while (!model.inputs.empty()) {
    const std::string prefix = fmt::format("before.{}.", runs.before.size());
    if (std::ranges::none_of(model.inputs, [&](const graph::Input& input) { return holds(prefix + input.name); }))
      break;
    runs.before.push_back(feeds_of(prefix));
  }
  return runs;
}

}  // namespace attest::models
