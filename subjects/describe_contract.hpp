#pragma once
#include <optional>
#include <string>

#include "core/contract.hpp"
#include "core/error.hpp"
#include "core/glob.hpp"
#include "subjects/describe_values.hpp"

namespace attest::describing {

// How `contract` of describe is read, whatever the operation. `Words` are the operation's: its Policy, its Contract and its stages,
// policy_from_text() and contract_from_json(). What is read goes into something that has the members `dtypes` (which are read),
// `policies`, `policy_declared`, `semantics` and `arithmetic`, as SubjectInfo has them of attention. `at` is where the contract
// stands: "contract", or "contract.layer_norm". All throw Error(usage) that names the key.

// Whether a policy text says what the inputs are stored in: by a leading name, or by a pattern that matches the stage.
inline bool names_storage(std::string_view text) {
  if (text.substr(0, text.find(',')).find('=') == std::string_view::npos) return true;
  for (std::size_t at = 0; at != std::string_view::npos && at < text.size();) {
    const std::string_view item = text.substr(at, text.find(',', at) - at);
    if (glob_matches(item.substr(0, item.find('=')), "storage")) return true;
    at = text.find(',', at) == std::string_view::npos ? std::string_view::npos : text.find(',', at) + 1;
  }
  return false;
}

// The policy that a text declares for a dtype; nullopt if it speaks of another storage format.
template <class Words>
std::optional<typename Words::Policy> policy_for_dtype(const json& value, const std::string& key, Format dtype) {
  if (!value.is_string()) reject(key, "a policy, or an object of a policy for each dtype");
  const auto& text = value.get_ref<const std::string&>();
  const auto policy = Words::policy_from_text(names_storage(text) ? text : std::string(name(dtype)) + "," + text);
  if (policy[Words::Stage::storage] != dtype) return std::nullopt;
  return policy;
}

// Throws if a name is that of no dtype in `dtypes`.
inline void require_dtype(const std::string& text, std::span<const Format> dtypes, const std::string& key) {
  const std::optional<Format> dtype = format_from_name(text);
  if (!dtype || std::ranges::find(dtypes, *dtype) == dtypes.end())
    throw usage_error(fmt::format("'{}' speaks of dtype '{}', which the subject does not offer", key, text));
}

// The policy of each dtype. One that has none gets the most that a correct kernel of this storage format may round: every stage
// in it.
template <class Words, class Info>
void read_policies(const json& contract, const std::string& at, Info& info) {
  using Policy = typename Words::Policy;
  const std::string key = at + ".policy";
  const auto declared = contract.find("policy");
  const bool declares = declared != contract.end();
  info.policy_declared = declares;
  if (declares && declared->is_object())
    for (const auto& [dtype, text] : declared->items()) require_dtype(dtype, info.dtypes, key);
  for (const Format dtype : info.dtypes) {
    const std::string dtype_name(name(dtype));
    std::optional<Policy> policy;
    if (declares && !declared->is_object()) {
      policy = policy_for_dtype<Words>(*declared, key, dtype);
    } else if (declares && declared->contains(dtype_name)) {
      const std::string own = key + "." + dtype_name;
      policy = policy_for_dtype<Words>(declared->at(dtype_name), own, dtype);
      if (!policy) reject(own, "a policy that stores " + dtype_name);
    }
    info.policies.push_back(policy.value_or(Policy(dtype)));
    if (!policy) info.policy_declared = false;
  }
}

// Policies, and everything else: numbers may differ between dtypes, semantics may not.
template <class Words, class Info>
void read_contract(const json& contract, const std::string& at, Info& info) {
  read_policies<Words>(contract, at, info);
  if (contract.is_object())
    for (const auto& [key, value] : contract.items()) {
      if (key == "policy" || !is_by_dtype(key, value)) continue;
      for (const auto& [dtype, number] : value.items()) require_dtype(dtype, info.dtypes, at + "." + key);
    }
  for (std::size_t n = 0; n < info.dtypes.size(); ++n) {
    auto of_dtype = Words::contract_from_json(contract_for_dtype(contract, info.dtypes[n]), info.policies[n]);
    info.arithmetic.push_back(of_dtype.arithmetic);
    of_dtype.policy = typename Words::Policy(info.dtypes.front());
    of_dtype.arithmetic = info.arithmetic.front();
    if (info.arithmetic.size() == 1) info.semantics = of_dtype;
    if (!(of_dtype == info.semantics))
      throw usage_error(fmt::format("'{}' differs between dtypes in more than its policy and its numbers", at));
  }
}

}  // namespace attest::describing
