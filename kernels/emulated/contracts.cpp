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
  Contract contract = contract_from_json(parse_json(declarations[variant]), policy);
  contract.empty_row = EmptyRow::zero;
  if (variant == 12) {
    if (policy[Stage::storage] == Format::f32) contract.policy.set(Stage::operand, Format::tf32);
    if (policy[Stage::storage] == Format::f64) contract.policy.set(Stage::operand, Format::f32);
    if (policy[Stage::storage] == Format::f16) contract.policy.set(Stage::operand, Format::bf16);
  }
  return contract;
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
  if (variant.in_octaves && !a.fold_k && !a.fold_sqrt) a.fold_q = true;
  a.lazy = variant.lazy;
  a.sum_of_rounded = variant.sum_of_rounded && variant.normalise != Normalise::before;
  a.sum_of_unrounded = !a.sum_of_rounded;
  a.normalise_after = variant.normalise == Normalise::online || variant.normalise == Normalise::after;
  a.normalise_before = variant.normalise == Normalise::before;
  a.normalise_lse = variant.normalise == Normalise::by_lse;
  const bool whole = variant.normalise != Normalise::online;
  if (whole) a.kv_tile_min = Index{1} << 20;
  if (whole || variant.splits == 1) {
    a.lse_merge = LseMerge::none;
    a.merge_weights = MergeWeights::normalised;
  }
  return contract;
}

}  // namespace attest::emulator
