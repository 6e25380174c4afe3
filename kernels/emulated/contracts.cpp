#include "kernels/emulated/contracts.hpp"

#include <nlohmann/json.hpp>

namespace attest::emulator {

Contract draw_contract(const Policy& policy, int variant) {
  static constexpr const char* declarations[contract_variants] = {
      R"({})",
      R"({"kappa":3})",
      R"({"exp2":false,"lse_merge":"none"})",
      R"({"lse_merge":"chain","splits_max":4})",
      R"({"kv_tile_min":4,"fold":"none"})",
      R"({"lse_merge":"none","key_order":"ascending"})",
      R"({"normalise":"lse"})",
      R"({"merge_weights":"lse","splits_max":3})",
      R"({"flush_to_zero":true})",
      R"({"exp_ulp":20,"sum_of":"rounded","normalise":"after"})",
      R"({"sum_of":"unrounded","lazy":0})",
      R"({"softcap_before_bias":false})",
      R"({})",  // and another operand format, below
      R"({"normalise":"before","kv_tile_min":16})",
      R"({"tanh":"absolute","tanh_ulp":8})",
      R"({"exp_rel":1e-4})",
      R"({"div_ulp":4,"tanh_ulp":64})",
      R"({"lazy":20})",
      R"({"lse_merge":"none","key_order":"descending","fold":"q"})",
      R"({"lse_merge":"chain","merge_weights":"lse","splits_max":5,"fold":"k"})",
      R"({"normalise":["after","before","lse"],"flush_to_zero":true,"kappa":3,"fold":"sqrt"})",
  };
  Contract contract = contract_from_json(nlohmann::json::parse(declarations[variant]), policy);
  contract.empty_row = EmptyRow::zero;
  if (variant == 12) {
    if (policy[Stage::storage] == Format::f32) contract.policy.set(Stage::operand, Format::tf32);
    if (policy[Stage::storage] == Format::f64) contract.policy.set(Stage::operand, Format::f32);
    if (policy[Stage::storage] == Format::f16) contract.policy.set(Stage::operand, Format::bf16);
  }
  return contract;
}

}  // namespace attest::emulator
