#pragma once
#include <optional>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "core/verdict.hpp"

namespace attest::engine {

// A number, or one of the strings "nan", "inf", "-inf", which JSON lacks as numbers.
nlohmann::ordered_json real_to_json(double value);
// Throws Error(usage) naming `name`.
double real_from_json(const nlohmann::json& value, std::string_view name);

// {tensor, index, got, expected, lo, hi, ratio, wrong, note}
nlohmann::ordered_json to_json(const Evidence& evidence);
// Throws Error(usage) naming what is wrong.
Evidence evidence_from_json(const nlohmann::json& object);

// Inverse of name(VerdictKind).
std::optional<VerdictKind> verdict_kind_from_name(std::string_view text) noexcept;

}  // namespace attest::engine
