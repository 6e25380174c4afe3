#pragma once
#include <span>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "core/layer_norm/offer.hpp"

namespace attest {

// Reads the part of describe about layer_norm: its `supports` and its `contract` of that operation, which stand at
// `supports_at` and `contract_at` ("supports.layer_norm"; "supports" where it is said of this operation alone). Throws
// Error(usage) naming a key that is unknown or has a wrong value.
layer_norm::Offer read_layer_norm(const nlohmann::json& supports, const std::string& supports_at,
                                  const nlohmann::json& contract, const std::string& contract_at,
                                  std::span<const Format> dtypes);

}  // namespace attest
