#include "kernels/emulated/contracts.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include "core/json_text.hpp"

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
      R"({"normalise":"after","sum_of":"unrounded","lazy":0})",
      R"({"normalise":"after","sum_of":"unrounded","lazy":0,"exp2":false,"lse_merge":"none","fold":"none"})",
  };
  Contract contract = contract_from_text(declarations[variant], policy);
  contract.empty_row = EmptyRow::zero;
  if (variant == 12) {
    if (policy[Stage::storage] == Format::f32) contract.policy.set(Stage::operand, Format::tf32);
    if (policy[Stage::storage] == Format::f64) contract.policy.set(Stage::operand, Format::f32);
    if (policy[Stage::storage] == Format::f16) contract.policy.set(Stage::operand, Format::bf16);
  }
  return contract;
}

Contract draw_mma_contract(const Policy& policy, int variant) {
  static constexpr const char* declarations[mma_variants] = {
      R"({"mma":"volta"})",
      R"({"mma":"ampere"})",
      R"({"mma":"hopper"})",
      R"({"mma":"hopper-fp8"})",
      R"({"mma":"volta","exp2":false,"lse_merge":"none","fold":"none","kv_tile_min":16})",
      R"({"mma":"ampere","exp2":false,"lse_merge":"none","fold":"none","kv_tile_min":64,"normalise":"after"})",
      R"({"mma":"8/25/f32/only","kv_tile_min":16,"normalise":"after","sum_of":"unrounded","lazy":0,"splits_max":3})",
      R"({"mma":"cdna3","lse_merge":"chain","splits_max":4})",
      R"({"mma":"ada-fp8","merge_weights":"lse","splits_max":3,"sum_of":"rounded","normalise":"after"})",
      R"({"mma":"1/23/f32","normalise":"lse"})",
      R"({"mma":"16/35/f32/only","flush_to_zero":true,"kv_tile_min":4})",
      R"({"mma":"3/5/e8m13","normalise":"before"})",
      R"({"mma":"8/10/f32","lazy":20})",
      R"({"mma":"4/23/f16"})",
      R"({"mma":"8/24/f16/only","lse_merge":"none","key_order":"ascending","kv_tile_min":4,"fold":"none"})",
      R"({"mma":"5/8/f16","flush_to_zero":true})",
  };
  nlohmann::json declaration = parse_json(declarations[variant]);
  // An f16 result is for f16 accumulators.
  const auto is_f16 = [&](Stage stage) { return policy[stage] == Format::f16; };
  if (declaration["mma"].get<std::string>().find("/f16") != std::string::npos &&
      !(is_f16(Stage::qk) && is_f16(Stage::pv)))
    declaration["mma"] = "2/24/f32";
  Contract contract = contract_from_json(declaration, policy);
  contract.empty_row = EmptyRow::zero;
  if (variant % 3 == 1 && policy[Stage::storage] == Format::f32) contract.policy.set(Stage::operand, Format::tf32);
  return contract;
}

Contract draw_any_contract(const Policy& policy, int variant) {
  return variant < contract_variants ? draw_contract(policy, variant)
                                     : draw_mma_contract(policy, variant - contract_variants);
}

void fold_into_score(Contract& contract) {
  Arithmetic& a = contract.arithmetic;
  a.fold_q = a.fold_k = a.fold_sqrt = false;
  a.fold_score = a.exp2 = true;
}

Contract tightened(Contract contract, const Variant& variant) {
  constexpr double exact = 0.51;  // rounded from more bits
  Arithmetic& a = contract.arithmetic;
  const auto narrow = [&](Stage stage) { return contract.policy[stage] != Format::f64; };
  if (variant.exp_error == Error::none && narrow(Stage::softmax)) {
    a.exp_rel.reset();
    a.exp_ulp = std::min(a.exp_ulp, exact);
  }
  if (variant.tanh_error == Error::none && narrow(Stage::softcap)) {
    a.tanh = TanhError::relative;
    a.tanh_ulp = exact;
  }
  if (variant.div_error == Error::none) a.div_ulp = 0.5;
  a.exp2 = variant.exp2 || variant.scale_on == ScaleOn::exponent;
  a.fold_q = variant.scale_on == ScaleOn::q;
  a.fold_k = variant.scale_on == ScaleOn::k;
  a.fold_sqrt = variant.scale_on == ScaleOn::square_roots;
  a.fold_score = variant.in_octaves && !a.fold_q && !a.fold_k && !a.fold_sqrt;
  a.lazy = variant.lazy;
  if (!variant.cut_operands && variant.blocks_qk == Blocks::none && variant.blocks_pv == Blocks::none &&
      variant.blocks_sum == Blocks::none)
    a.mma.reset();
  a.sum_of_rounded =
      variant.sum_of_rounded && variant.normalise != Normalise::before && variant.normalise != Normalise::anew;
  a.sum_of_unrounded = !a.sum_of_rounded;
  a.normalise_after = variant.normalise == Normalise::online || variant.normalise == Normalise::after;
  a.normalise_before = variant.normalise == Normalise::before;
  a.normalise_lse = variant.normalise == Normalise::by_lse || variant.normalise == Normalise::anew;
  if (variant.normalise != Normalise::online) a.kv_tile_min = Index{1} << 20;
  if (variant.splits == 1) {
    a.lse_merge = LseMerge::none;
    a.merge_weights = MergeWeights::normalised;
  }
  return contract;
}

}  // namespace attest::emulator
