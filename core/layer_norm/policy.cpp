#include "core/layer_norm/policy.hpp"

#include "core/policy_text.hpp"

namespace attest::layer_norm {
namespace {

constexpr std::array<StageText, stage_count> stage_texts{{
    {"storage", "x, residual, gamma, beta and sum_out in memory"},
    {"sum", "x + residual, before it is rounded to storage"},
    {"statistics", "sums, mean, variance, variance + epsilon and its reciprocal root"},
    {"normalise", "(x - mean) times the reciprocal root"},
    {"affine", "times gamma, plus beta"},
    {"output", "the output tensor"},
}};

Policy mixed_policy(Format storage) {
  return Policy(Format::f32).set(Stage::storage, storage).set(Stage::output, storage);
}

const std::array<NamedPolicy, 6>& policy_table() {
  static const std::array<NamedPolicy, 6> rows{{
      {"f32", Policy(Format::f32), "every stage f32"},
      {"f64", Policy(Format::f64), "every stage f64"},
      {"f16", mixed_policy(Format::f16), "f16 storage and output, f32 arithmetic"},
      {"bf16", mixed_policy(Format::bf16), "bf16 storage and output, f32 arithmetic"},
      {"f16-all", Policy(Format::f16), "every stage f16"},
      {"bf16-all", Policy(Format::bf16), "every stage bf16"},
  }};
  return rows;
}

const PolicyText<Stage, stage_count>& policies() {
  static const PolicyText<Stage, stage_count> text(
      "layer_norm", stage_texts, policy_table(), false,
      {"names no format of a layer_norm stage", "matches no stage of layer_norm"});
  return text;
}

}  // namespace

std::string_view name(Stage stage) noexcept { return stage_texts[static_cast<std::size_t>(stage)].name; }
std::string_view describe(Stage stage) noexcept { return stage_texts[static_cast<std::size_t>(stage)].doc; }
std::span<const NamedPolicy> named_policies() noexcept { return policy_table(); }

Policy policy_for(Format storage) { return policies().named_like(storage); }
Policy policy_from_text(std::string_view text) { return policies().read(text); }
std::string to_text(const Policy& policy) { return policies().write(policy); }

}  // namespace attest::layer_norm
