#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "core/stage_policy.hpp"

namespace attest::layer_norm {

// The stages whose number format a policy declares, in the order in which a kernel meets them (docs/layer-norm.md).
enum class Stage : std::uint8_t {
  storage,     // x, residual, gamma, beta and sum_out in memory
  sum,         // x + residual, before it is rounded to storage
  statistics,  // sums, mean, variance, variance + epsilon, its reciprocal root
  normalise,   // (x - m) r
  affine,      // times gamma, plus beta
  output,      // the output tensor
};
inline constexpr std::size_t stage_count = 6;

std::string_view name(Stage stage) noexcept;
// One clause that says what the stage is.
std::string_view describe(Stage stage) noexcept;

using Policy = StagePolicy<Stage, stage_count>;
using NamedPolicy = NamedStagePolicy<Policy>;
// f32 f64 f16 bf16 f16-all bf16-all.
std::span<const NamedPolicy> named_policies() noexcept;

// The policy named like a storage format: f32, f64, f16, bf16.
Policy policy_for(Format storage);

// Reads `NAME`, `stage=format,...` or `NAME,stage=format,...`, as core/policy.hpp does for attention: a stage may be a
// pattern, the last that matches wins, and other stages follow NAME, else the policy named like the storage format,
// else f32. Throws Error(usage) for an unknown name or format, for tf32, which no stage here can have, and for a
// pattern that matches no stage.
Policy policy_from_text(std::string_view text);

// The shortest text that policy_from_text reads back.
std::string to_text(const Policy& policy);

}  // namespace attest::layer_norm
