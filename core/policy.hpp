#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "core/stage_policy.hpp"

namespace attest {

// The stages of attention whose number format a policy declares, in the order in which a kernel meets them.
enum class Stage : std::uint8_t {
  storage,  // q, k, v in memory
  operand,  // q, k, the weights and v as they are rounded on entering a product
  scale,    // a scale folded into q, k or the score
  qk,       // accumulation of q.k
  score,    // the stored score, and the score after the bias
  softcap,  // c tanh(s/c)
  softmax,  // maximum, exp, sum
  weights,  // the weights on entering the second product
  pv,       // accumulation of weights times v
  partial,  // split-KV partial results
  output,   // the output tensor
};
inline constexpr std::size_t stage_count = 11;

std::string_view name(Stage stage) noexcept;
// One clause that says what the stage is, for help texts and explanations.
std::string_view describe(Stage stage) noexcept;

using Policy = StagePolicy<Stage, stage_count>;
using NamedPolicy = NamedStagePolicy<Policy>;
// f32 f64 f16 bf16 f16-scores16 f16-acc16 f16-softmax16 f16-all bf16-all.
std::span<const NamedPolicy> named_policies() noexcept;

// The policy named like a storage format: f32, f64, f16, bf16.
Policy policy_for(Format storage);

// Reads `NAME`, `stage=format,...` or `NAME,stage=format,...`. A stage may be a pattern with * and ?; the last that
// matches wins; other stages follow NAME, else the policy named like the storage format, else f32.
// Throws Error(usage) for an unknown name or format, for tf32 in memory, and for a pattern that matches no stage.
Policy policy_from_text(std::string_view text);

// Returns the shortest text that policy_from_text reads back: a name, or a name and the stages that differ from it.
std::string to_text(const Policy& policy);

}  // namespace attest
