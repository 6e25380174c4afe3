#include "subjects/describe_values.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/error.hpp"

namespace attest::describing {
namespace {

Index count(const json& value, const std::string& key, Index least) {
  if (!value.is_number_integer() || value.get<double>() < static_cast<double>(least) || value.get<double>() > 0x1p40)
    reject(key, fmt::format("an integer of at least {}", least));
  return value.get<Index>();
}

std::optional<std::size_t> index_in(Words allowed, const json& value) {
  if (!value.is_string()) return std::nullopt;
  const auto found = std::ranges::find(allowed, value.get_ref<const std::string&>());
  if (found == allowed.end()) return std::nullopt;
  return static_cast<std::size_t>(found - allowed.begin());
}

}  // namespace

void reject(const std::string& key, const std::string& allowed) {
  throw usage_error(fmt::format("'{}' must be {}", key, allowed));
}

void choices(const json& value, const std::string& key, Words allowed, const std::function<void(std::size_t)>& take) {
  const std::string wanted = fmt::format("a list of {}", fmt::join(allowed, ", "));
  if (!value.is_array()) reject(key, wanted);
  for (const json& item : value) {
    const std::optional<std::size_t> found = index_in(allowed, item);
    if (!found) reject(key, wanted);
    take(*found);
  }
}

std::size_t choice(const json& value, const std::string& key, Words allowed) {
  const std::optional<std::size_t> found = index_in(allowed, value);
  if (!found) reject(key, fmt::format("one of {}", fmt::join(allowed, ", ")));
  return *found;
}

bool flag(const json& value, const std::string& key) {
  if (!value.is_boolean()) reject(key, "true or false");
  return value.get<bool>();
}

double milliseconds(const json& value, const std::string& key) {
  constexpr double most = 3'600'000;
  if (!value.is_number() || !(value.get<double>() >= 0 && value.get<double>() <= most))
    reject(key, fmt::format("a number of milliseconds from 0 to {:.0f}", most));
  return value.get<double>();
}

Index alignment(const json& value, const std::string& key) {
  const Index bytes = count(value, key, 1);
  if (bytes > 256 || !std::has_single_bit(static_cast<std::uint64_t>(bytes))) reject(key, "a power of two up to 256");
  return bytes;
}

DimRange dim_range(const json& value, const std::string& key) {
  if (!value.is_array() || value.size() != 3) reject(key, "a list [min, max or null, multiple of]");
  DimRange range;
  range.min = count(value[0], key, 0);
  if (!value[1].is_null()) range.max = count(value[1], key, range.min);
  range.multiple = count(value[2], key, 1);
  if (range.max / range.multiple * range.multiple < range.min)
    reject(key, "a range that holds a multiple of its third number");
  return range;
}

Strides strides(const json& value, const std::string& key) {
  return static_cast<Strides>(
      choice(value, key, std::to_array<std::string_view>({"any", "last_dim_contiguous", "contiguous"})));
}

std::vector<Format> dtypes(const json& value, const std::string& key) {
  std::array<std::string_view, stored_formats.size()> names;
  std::ranges::transform(stored_formats, names.begin(), [](Format format) { return name(format); });
  std::vector<Format> dtypes;
  choices(value, key, names, [&](std::size_t i) {
    const Format format = stored_formats[i];
    if (std::find(dtypes.begin(), dtypes.end(), format) == dtypes.end()) dtypes.push_back(format);
  });
  if (dtypes.empty()) reject(key, "a list that is not empty");
  return dtypes;
}

}  // namespace attest::describing
