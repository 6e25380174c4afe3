#pragma once
#include <span>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "core/mha/offer.hpp"

namespace attest {

// Reads the part of describe about mha, as read_layer_norm() (describe_layer_norm.hpp) does for layer_norm.
mha::Offer read_mha(const nlohmann::json& supports, const std::string& supports_at, const nlohmann::json& contract,
                    const std::string& contract_at, std::span<const Format> dtypes);

}  // namespace attest
