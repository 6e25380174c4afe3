#include "core/mha/contract.hpp"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "core/policy_stages.hpp"

namespace attest::mha {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr auto projected_names = std::to_array<std::string_view>({"unrounded", "rounded", "separate"});
constexpr Index most_terms = 1 << 20;

// Returns the items of a policy of attention that an item stands for: itself, or, named from outside, one for each
// stage that it matches.
std::vector<std::string> items_of_attention(std::string_view item) {
  const std::string_view pattern = item.substr(0, item.find('='));
  bool as_it_is = pattern.size() == item.size();
  std::vector<std::string> items;
  for (std::size_t n = 0; n < stage_count; ++n) {
    const std::string_view stage = name(static_cast<Stage>(n));
    if (names_stage(pattern, "attention", stage)) as_it_is = true;
    if (names_stage(pattern, "mha", stage)) items.push_back(fmt::format("{}{}", stage, item.substr(pattern.size())));
  }
  if (as_it_is) items = {std::string(item)};
  return items;
}

[[noreturn]] void reject(std::string_view key, std::string_view allowed) {
  throw usage_error(fmt::format("contract: {} must be {}", key, allowed));
}

Index read_count(const json& value, std::string_view key, Index lo) {
  if (!value.is_number_integer() || value.get<double>() < static_cast<double>(lo) ||
      value.get<double>() > static_cast<double>(most_terms))
    reject(key, fmt::format("an integer in {}..{}", lo, most_terms));
  return value.get<Index>();
}

Chain read_chain(const json& value) {
  if (!value.is_object()) return {read_count(value, "gemm_chain", 0), 0, 1};
  Chain chain{0, 1, 1};
  for (const auto& [key, number] : value.items()) {
    if (key == "lanes")
      chain.lanes = read_count(number, "gemm_chain.lanes", 1);
    else if (key == "block")
      chain.block = read_count(number, "gemm_chain.block", 1);
    else
      throw usage_error(fmt::format("contract: gemm_chain has lanes and block, no {}", key));
  }
  return chain;
}

// "a" or ["a", "b"]: calls `take` with the place of each among `names`.
template <std::size_t N, class Take>
void read_ways(const json& value, std::string_view key, const std::array<std::string_view, N>& names, Take take) {
  const std::string allowed = fmt::format("one or more of {}", fmt::join(names, ", "));
  const auto one = [&](const json& item) {
    if (item.is_string())
      for (std::size_t n = 0; n < N; ++n)
        if (names[n] == item.get_ref<const std::string&>()) return take(n);
    reject(key, allowed);
  };
  if (!value.is_array()) return one(value);
  if (value.empty()) reject(key, allowed);
  for (const json& item : value) one(item);
}

}  // namespace

Policy policy_from_text(std::string_view text) {
  std::string of_attention;
  std::optional<Format> gemm;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view item = text.substr(begin, end - begin), pattern = item.substr(0, item.find('='));
    begin = end + 1;
    const bool names_gemm = pattern.size() < item.size() && names_stage(pattern, "mha", "gemm");
    if (names_gemm) {
      gemm = format_from_name(item.substr(pattern.size() + 1));
      if (!gemm)
        throw usage_error(fmt::format("policy item '{}' names no format: use {}", item, stored_format_names()));
      if (*gemm == Format::tf32) throw usage_error("policy: gemm accumulates, which tf32 does not: use f32");
    }
    std::vector<std::string> rest = items_of_attention(item);
    if (rest.empty() && !names_gemm)
      throw usage_error(
          fmt::format("policy pattern '{}' matches no stage of mha: {}", pattern, stages_in_words("mha")));
    for (const std::string& one : rest) of_attention += (of_attention.empty() ? "" : ",") + one;
  }
  Policy policy{of_attention.empty() && gemm ? attest::Policy(Format::f32) : attest::policy_from_text(of_attention)};
  policy.gemm = gemm ? *gemm : policy.attention[Stage::qk];
  return policy;
}

std::string to_text(const Policy& policy) {
  std::string text = attest::to_text(policy.attention);
  if (policy.gemm != policy.attention[Stage::qk]) text += fmt::format(",gemm={}", name(policy.gemm));
  return text;
}

Contract contract_for(const Policy& policy) {
  Contract contract;
  contract.attention = attest::contract_for(policy.attention);
  contract.gemm = policy.gemm;
  return contract;
}

Contract contract_from_json(const json& object, const Policy& policy) {
  if (!object.is_object()) throw usage_error("contract: it must be a JSON object");
  Contract contract = contract_for(policy);
  json of_attention = json::object();
  for (const auto& [key, value] : object.items()) {
    if (key == "gemm_chain") {
      contract.gemm_chain = read_chain(value);
    } else if (key == "projections") {
      std::ranges::fill(contract.projections, false);
      read_ways(value, key, projected_names, [&](std::size_t way) { contract.projections[way] = true; });
    } else if (key == "heads") {
      contract.heads_rounded = contract.heads_unrounded = false;
      read_ways(value, key, std::to_array<std::string_view>({"rounded", "unrounded"}),
                [&](std::size_t way) { (way == 0 ? contract.heads_rounded : contract.heads_unrounded) = true; });
    } else if (key == "drops_b_k") {
      if (!value.is_boolean()) reject(key, "true or false");
      contract.drops_b_k = value.get<bool>();
    } else {
      of_attention[key] = value;
    }
  }
  contract.attention = attest::contract_from_json(of_attention, policy.attention);
  check(contract);
  return contract;
}

ordered_json to_json(const Contract& contract) {
  ordered_json object = attest::to_json(contract.attention);
  object["policy"] = to_text(Policy{contract.attention.policy, contract.gemm});
  if (contract.gemm_chain) {
    const Chain& chain = *contract.gemm_chain;
    if (chain.lanes == 0)
      object["gemm_chain"] = chain.most;
    else
      object["gemm_chain"] = {{"lanes", chain.lanes}, {"block", chain.block}};
  }
  object["projections"] = ordered_json::array();
  for (std::size_t way = 0; way < projected_count; ++way)
    if (contract.projections[way]) object["projections"].push_back(projected_names[way]);
  object["heads"] = ordered_json::array();
  if (contract.heads_rounded) object["heads"].push_back("rounded");
  if (contract.heads_unrounded) object["heads"].push_back("unrounded");
  object["drops_b_k"] = contract.drops_b_k;
  return object;
}

void check(const Contract& contract) {
  if (contract.gemm == Format::tf32) throw usage_error("contract: gemm accumulates, which tf32 does not: use f32");
}

}  // namespace attest::mha
