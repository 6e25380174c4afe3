#include "subjects/describe_layer_norm.hpp"

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
namespace describing::of_layer_norm {
namespace {

using layer_norm::Supports;

struct OfLayerNorm {
  using Stage = layer_norm::Stage;
  using Policy = layer_norm::Policy;
  static Policy policy_from_text(std::string_view text) { return layer_norm::policy_from_text(text); }
  static layer_norm::Contract contract_from_json(const json& object, Format dtype, const Policy& policy) {
    return layer_norm::contract_from_json(contract_for_dtype(object, dtype), policy);
  }
};

void read_norms(const json& value, const std::string& key, Supports& supports) {
  constexpr auto names = std::to_array<std::string_view>({"layer", "rms"});
  supports.layer = supports.rms = false;
  choices(value, key, names, [&](std::size_t i) { (i == 0 ? supports.layer : supports.rms) = true; });
  if (!supports.layer && !supports.rms) reject(key, "a list that is not empty");
}

void read_param_dtypes(const json& value, const std::string& key, Supports& supports) {
  constexpr auto names = std::to_array<std::string_view>({"same", "f32"});
  supports.param_same = supports.param_f32 = false;
  choices(value, key, names, [&](std::size_t i) { (i == 0 ? supports.param_same : supports.param_f32) = true; });
  if (!supports.param_same && !supports.param_f32) reject(key, "a list that is not empty");
}

// Reads whether a tensor may be there, and whether it may be absent.
void read_presence(const json& value, const std::string& key, bool& there, bool& absent) {
  if (!value.is_boolean() && value != "required") reject(key, R"(true, false or "required")");
  there = value != false;
  absent = value.is_boolean();
}

void read_dims(const json& object, const std::string& at, Supports& supports) {
  if (!object.is_object()) reject(at, "an object");
  for (const auto& [name, value] : object.items()) {
    const std::string key = fmt::format("{}.{}", at, name);
    const layer_norm::Field* const field = layer_norm::find_field(name);
    if (field == nullptr || field->extent == nullptr)
      throw usage_error(
          fmt::format("there is no '{}': dims of layer_norm are {}", one_line(key), extents(layer_norm::fields())));
    supports.*field->extent = dim_range(value, key);
  }
}

Supports read_supports(const json& object, const std::string& at) {
  if (!object.is_object()) reject(at, "an object");
  Supports supports;
  for (const auto& [name, value] : object.items()) {
    const std::string key = fmt::format("{}.{}", at, name);
    if (name == "norms")
      read_norms(value, key, supports);
    else if (name == "residual")
      read_presence(value, key, supports.residual, supports.no_residual);
    else if (name == "sum_out")
      supports.sum_out = flag(value, key);
    else if (name == "gamma")
      read_presence(value, key, supports.gamma, supports.no_gamma);
    else if (name == "beta")
      read_presence(value, key, supports.beta, supports.no_beta);
    else if (name == "param_dtypes")
      read_param_dtypes(value, key, supports);
    else if (name == "strides")
      supports.strides = strides(value, key);
    else if (name == "far")
      supports.far = flag(value, key);
    else if (name == "alignment")
      supports.alignment = alignment(value, key);
    else if (name == "dims")
      read_dims(value, key, supports);
    else
      throw usage_error(fmt::format("there is no key '{}' of layer_norm: docs/plugin.md lists them", one_line(key)));
  }
  return supports;
}

}  // namespace
}  // namespace describing::of_layer_norm

layer_norm::Offer read_layer_norm(const nlohmann::json& supports, const std::string& supports_at,
                                  const nlohmann::json& contract, const std::string& contract_at,
                                  std::span<const Format> dtypes) {
  layer_norm::Offer offer;
  offer.dtypes.assign(dtypes.begin(), dtypes.end());
  offer.supports = describing::of_layer_norm::read_supports(supports, supports_at);
  describing::read_contract<describing::of_layer_norm::OfLayerNorm>(contract, contract_at, offer);
  return offer;
}

}  // namespace attest
