#pragma once
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "core/format.hpp"
#include "core/ranges.hpp"

namespace attest::describing {

// The values that keys of describe have. `key` is where they stand, "supports.dims.d"; each throws Error(usage) that names it and
// says what it must be.

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

// A list of some of `allowed`; `take` is called with the index of each.
template <std::size_t N, class Take>
void choices(const json& value, const std::string& key, const std::array<std::string_view, N>& allowed, Take&& take) {
  const std::string wanted = fmt::format("a list of {}", fmt::join(allowed, ", "));
  if (!value.is_array()) reject(key, wanted);
  for (const json& item : value) {
    const auto found = item.is_string() ? std::find(allowed.begin(), allowed.end(), item.get_ref<const std::string&>())
                                        : allowed.end();
    if (found == allowed.end()) reject(key, wanted);
    take(static_cast<std::size_t>(found - allowed.begin()));
  }
}

template <std::size_t N>
std::size_t choice(const json& value, const std::string& key, const std::array<std::string_view, N>& allowed) {
  const auto found = value.is_string() ? std::find(allowed.begin(), allowed.end(), value.get_ref<const std::string&>())
                                       : allowed.end();
  if (found == allowed.end()) reject(key, fmt::format("one of {}", fmt::join(allowed, ", ")));
  return static_cast<std::size_t>(found - allowed.begin());
}

// The names of an operation's dimensions, "rows, hidden".
template <class Fields>
std::string extents(const Fields& fields) {
  std::vector<std::string_view> names;
  for (const auto& field : fields)
    if (field.extent) names.push_back(field.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace attest::describing
