#include "subjects/describe_mha.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <nlohmann/json.hpp>

#include "core/contract.hpp"
#include "core/error.hpp"
#include "core/field.hpp"
#include "subjects/describe_contract.hpp"
#include "subjects/describe_values.hpp"
#include "subjects/message.hpp"

namespace attest {
namespace describing::of_mha {
namespace {

using mha::Supports;

// Reads whether biases may be there, and whether they may be absent.
void read_biases(const json& value, const std::string& key, bool& there, bool& absent) {
  if (!value.is_boolean() && value != "required") reject(key, R"(true, false or "required")");
  there = value != false;
  absent = value.is_boolean();
}

void read_align(const json& value, const std::string& key, Supports& supports) {
  supports.top_left = supports.bottom_right = false;
  choices(value, key, std::to_array<std::string_view>({"top_left", "bottom_right"}),
          [&](std::size_t i) { (i == 0 ? supports.top_left : supports.bottom_right) = true; });
}

void read_memory(const json& value, const std::string& key, Supports& supports) {
  supports.self = supports.cross = false;
  choices(value, key, std::to_array<std::string_view>({"self", "cross"}),
          [&](std::size_t i) { (i == 0 ? supports.self : supports.cross) = true; });
  if (!supports.self && !supports.cross) reject(key, "a list that is not empty");
}

void read_stages(const json& value, const std::string& key, Supports& supports) {
  constexpr auto names = std::to_array<std::string_view>({"q", "k", "v", "heads"});
  bool* const given[] = {&supports.stage_q, &supports.stage_k, &supports.stage_v, &supports.stage_heads};
  choices(value, key, names, [&](std::size_t i) { *given[i] = true; });
}

void read_dims(const json& object, const std::string& at, Supports& supports) {
  if (!object.is_object()) reject(at, "an object");
  for (const auto& [name, value] : object.items()) {
    const std::string key = fmt::format("{}.{}", at, name);
    const mha::Field* const field = mha::find_field(name);
    if (field == nullptr || field->extent == nullptr)
      throw usage_error(fmt::format("there is no '{}': dims of mha are {}", one_line(key), extents(mha::fields())));
    if (name == "head_dim" && value == "=e/heads")
      supports.heads_fill_e = true;
    else
      supports.*field->extent = dim_range(value, key);
  }
}

Supports read_supports(const json& object, const std::string& at) {
  if (!object.is_object()) reject(at, "an object");
  Supports supports;
  for (const auto& [name, value] : object.items()) {
    const std::string key = fmt::format("{}.{}", at, name);
    if (name == "memory")
      read_memory(value, key, supports);
    else if (name == "in_biases")
      read_biases(value, key, supports.in_biases, supports.no_in_biases);
    else if (name == "out_bias")
      read_biases(value, key, supports.out_bias, supports.no_out_bias);
    else if (name == "causal")
      supports.causal = flag(value, key);
    else if (name == "align")
      read_align(value, key, supports);
    else if (name == "gqa")
      supports.gqa = flag(value, key);
    else if (name == "bias")
      supports.bias = flag(value, key);
    else if (name == "keep")
      supports.keep = flag(value, key);
    else if (name == "kv_lengths")
      supports.kv_lengths = flag(value, key);
    else if (name == "scale")
      supports.scale = static_cast<Supports::Scale>(
          choice(value, key, std::to_array<std::string_view>({"any", "positive", "default"})));
    else if (name == "stages")
      read_stages(value, key, supports);
    else if (name == "strides")
      supports.strides = strides(value, key);
    else if (name == "far")
      supports.far = flag(value, key);
    else if (name == "alignment")
      supports.alignment = alignment(value, key);
    else if (name == "dims")
      read_dims(value, key, supports);
    else
      throw usage_error(fmt::format("there is no key '{}' of mha: docs/plugin.md lists them", one_line(key)));
  }
  return supports;
}

// Reads the contracts as read_contract() (describe_contract.hpp) does: one of another storage format gets the most
// generous reading.
void read_contracts(const json& contract, const std::string& at, mha::Offer& offer) {
  const auto texts = policy_texts(contract, at, offer.dtypes);
  require_dtypes(contract, at, offer.dtypes);
  for (std::size_t n = 0; n < offer.dtypes.size(); ++n) {
    const Format dtype = offer.dtypes[n];
    std::optional<mha::Policy> policy;
    if (texts[n]) policy = mha::policy_from_text(texts[n]->text);
    if (policy && policy->attention[Stage::storage] != dtype) {
      if (texts[n]->of_this_dtype) reject(texts[n]->key, "a policy that stores " + std::string(name(dtype)));
      policy.reset();
    }
    if (!policy) offer.policy_declared = false;
    offer.contracts.push_back(mha::contract_from_json(contract_for_dtype(contract, dtype),
                                                      policy.value_or(mha::Policy{Policy(dtype), dtype})));
  }
}

}  // namespace
}  // namespace describing::of_mha

mha::Offer read_mha(const nlohmann::json& supports, const std::string& supports_at, const nlohmann::json& contract,
                    const std::string& contract_at, std::span<const Format> dtypes) {
  mha::Offer offer;
  offer.dtypes.assign(dtypes.begin(), dtypes.end());
  offer.supports = describing::of_mha::read_supports(supports, supports_at);
  describing::of_mha::read_contracts(contract, contract_at, offer);
  return offer;
}

}  // namespace attest
