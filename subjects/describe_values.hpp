#pragma once
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "core/format.hpp"
#include "core/ranges.hpp"

namespace attest::describing {

// The values that keys of describe have. `key` is where they stand, "supports.dims.d"; each throws Error(usage) that
// names it and says what it must be.

using nlohmann::json;

[[noreturn]] void reject(const std::string& key, const std::string& allowed);

bool flag(const json& value, const std::string& key);
double milliseconds(const json& value, const std::string& key);
// A power of two up to 256: tensors begin at multiples of 256 bytes, or off them as their layout says.
Index alignment(const json& value, const std::string& key);
// [min, max or null, multiple of]
DimRange dim_range(const json& value, const std::string& key);
Strides strides(const json& value, const std::string& key);
// Each dtype once, in the order given.
std::vector<Format> dtypes(const json& value, const std::string& key);

using Words = std::span<const std::string_view>;
// A list of some of `allowed`; `take` is called with the index of each.
void choices(const json& value, const std::string& key, Words allowed, const std::function<void(std::size_t)>& take);
// The index of one of `allowed`.
std::size_t choice(const json& value, const std::string& key, Words allowed);

// The names of an operation's dimensions, "rows, hidden".
template <class Fields>
std::string extents(const Fields& fields) {
  std::vector<std::string_view> names;
  for (const auto& field : fields)
    if (field.extent) names.push_back(field.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace attest::describing
