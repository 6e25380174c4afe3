#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "core/format.hpp"

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

// The precision contract: one format per stage.
class Policy {
 public:
  explicit Policy(Format format = Format::f32) noexcept { formats_.fill(format); }

  [[nodiscard]] Format operator[](Stage stage) const noexcept { return formats_[static_cast<std::size_t>(stage)]; }
  Policy& set(Stage stage, Format format) noexcept {
    formats_[static_cast<std::size_t>(stage)] = format;
    return *this;
  }
  friend bool operator==(const Policy&, const Policy&) = default;

 private:
  std::array<Format, stage_count> formats_{};
};

struct NamedPolicy {
  std::string_view name;
  Policy policy;
  std::string_view doc;
};
// f32 f64 f16 bf16 f16-all bf16-all.
std::span<const NamedPolicy> named_policies() noexcept;

// The policy named like a storage format: f32, f64, f16, bf16.
Policy policy_for(Format storage);

// Reads `NAME`, `stage=format,...` or `NAME,stage=format,...`, as core/policy.hpp does for attention: a stage may be a pattern,
// the last that matches wins, and what nothing names follows NAME, else the policy named like the storage format, else f32.
// Throws Error(usage) for an unknown name or format, for tf32, which no stage here can have, and for a pattern that
// matches no stage.
Policy policy_from_text(std::string_view text);

// The shortest text that policy_from_text reads back.
std::string to_text(const Policy& policy);

}  // namespace attest::layer_norm
