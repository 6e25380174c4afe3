#include "subjects/describe_contract.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/contract.hpp"
#include "core/glob.hpp"

namespace attest::describing {
namespace {

// Tells whether a policy text says what the inputs are stored in: by a leading name, or by a pattern that matches the
// stage.
bool names_storage(std::string_view text) {
  if (text.substr(0, text.find(',')).find('=') == std::string_view::npos) return true;
  for (std::size_t at = 0; at != std::string_view::npos && at < text.size();) {
    const std::string_view item = text.substr(at, text.find(',', at) - at);
    if (glob_matches(item.substr(0, item.find('=')), "storage")) return true;
    at = text.find(',', at) == std::string_view::npos ? std::string_view::npos : text.find(',', at) + 1;
  }
  return false;
}

PolicyText policy_text(const json& value, const std::string& key, Format dtype, bool of_this_dtype) {
  if (!value.is_string()) reject(key, "a policy, or an object of a policy for each dtype");
  const auto& text = value.get_ref<const std::string&>();
  return {names_storage(text) ? text : std::string(name(dtype)) + "," + text, key, of_this_dtype};
}

void require_dtype(const std::string& text, std::span<const Format> dtypes, const std::string& key) {
  const std::optional<Format> dtype = format_from_name(text);
  if (!dtype || std::ranges::find(dtypes, *dtype) == dtypes.end())
    throw usage_error(fmt::format("'{}' speaks of dtype '{}', which the subject does not offer", key, text));
}

}  // namespace

std::vector<std::optional<PolicyText>> policy_texts(const json& contract, const std::string& at,
                                                    std::span<const Format> dtypes) {
  std::vector<std::optional<PolicyText>> texts(dtypes.size());
  const std::string key = at + ".policy";
  const auto declared = contract.find("policy");
  if (declared == contract.end()) return texts;
  if (declared->is_object())
    for (const auto& [dtype, text] : declared->items()) require_dtype(dtype, dtypes, key);
  for (std::size_t n = 0; n < dtypes.size(); ++n) {
    const std::string dtype(name(dtypes[n]));
    if (!declared->is_object())
      texts[n] = policy_text(*declared, key, dtypes[n], false);
    else if (declared->contains(dtype))
      texts[n] = policy_text(declared->at(dtype), fmt::format("{}.{}", key, dtype), dtypes[n], true);
  }
  return texts;
}

void require_dtypes(const json& contract, const std::string& at, std::span<const Format> dtypes) {
  if (!contract.is_object()) return;
  for (const auto& [key, value] : contract.items()) {
    if (key == "policy" || !is_by_dtype(key, value)) continue;
    for (const auto& [dtype, number] : value.items()) require_dtype(dtype, dtypes, fmt::format("{}.{}", at, key));
  }
}

}  // namespace attest::describing
