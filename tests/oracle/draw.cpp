#include "tests/oracle/draw.hpp"

#include "core/rng.hpp"

namespace attest::testing {

Problem draw_problem(Format dtype, std::uint64_t seed, Index lk_max) {
  std::uint64_t key = mix(seed ^ 0x6f7261636c65u);
  const auto pick = [&](std::uint64_t n) { return static_cast<Index>(below(key = mix(key), n)); };
  const auto chance = [&](std::uint64_t n) { return pick(n) == 0; };
  constexpr Index sizes[] = {1, 2, 3, 4, 8, 16, 32};
  Problem p;
  p.dtype = dtype;
  p.seed = key;
  p.b = 1 + pick(2);
  p.hkv = 1 + pick(2);
  p.hq = p.hkv * (1 + pick(2));
  p.lq = 1 + pick(chance(3) ? 9 : 3);
  p.lk = 1 + pick(static_cast<std::uint64_t>(chance(2) ? lk_max : 5));
  p.d = sizes[pick(7)];
  p.dv = chance(2) ? 1 + pick(11) : sizes[pick(6)];
  if (chance(4)) p.scale = static_cast<double>(pick(7) - 2) * 0.25;
  if (chance(8)) p.softcap = static_cast<double>(1 + pick(40));
  p.causal = chance(4);
  p.align = chance(2) ? Align::bottom_right : Align::top_left;
  if (chance(6)) p.window_left = pick(6);
  if (chance(6)) p.window_right = pick(6);
  if (chance(3)) p.keep = static_cast<Keep>(pick(keep_count));
  p.keep_axes = chance(2) ? 15 : pick(16);
  if (chance(3)) p.bias = static_cast<Bias>(pick(bias_count));
  p.bias_axes = chance(2) ? 15 : pick(16);
  p.bias_type = chance(2) ? BiasType::f32 : BiasType::same;
  if (chance(4)) p.lengths = static_cast<Lengths>(pick(lengths_count));
  if (chance(4)) {
    p.q_layout = static_cast<Layout>(pick(layout_count));
    p.k_layout = static_cast<Layout>(pick(layout_count));
    p.v_layout = static_cast<Layout>(pick(layout_count));
    p.out_layout = static_cast<Layout>(pick(6));
  }
  if (chance(2)) p.lse = chance(2) ? LseOutput::f64 : LseOutput::f32;
  p.values = chance(2) ? Values::normal : static_cast<Values>(pick(values_count));
  if (chance(4)) p.amplitude = p.dtype == Format::f16 ? 2 : 4;
  if (chance(8)) {  // raw scores near and past the largest f16
    p.amplitude = static_cast<double>(Index{8} << pick(11));
    if (chance(2)) p.scale = (chance(3) ? -1.0 : 1.0) / static_cast<double>(Index{1} << pick(16));
  }
  return p;
}

Contract draw_contract(const Policy& policy, int variant) {
  Contract contract = contract_for(policy);
  contract.empty_row = EmptyRow::zero;
  Arithmetic& a = contract.arithmetic;
  switch (variant) {
    case 1:
      a.kappa = 3;
      break;
    case 2:
      a.exp2 = false;
      a.lse_merge = LseMerge::none;
      break;
    case 3:
      a.lse_merge = LseMerge::chain;
      a.splits_max = 4;
      break;
    case 4:
      a.kv_tile_min = 4;
      a.fold_q = a.fold_k = a.fold_sqrt = false;
      break;
    case 5:
      a.lse_merge = LseMerge::none;
      a.key_order = KeyOrder::ascending;
      break;
    case 6:
      a.normalise_after = a.normalise_before = false;
      a.normalise_lse = true;
      break;
    case 7:
      a.merge_weights = MergeWeights::lse;
      a.splits_max = 3;
      break;
    case 8:
      a.flush_to_zero = true;
      break;
    case 9:
      a.exp_ulp = 20;
      a.sum_of_unrounded = false;
      a.normalise_before = false;
      break;
    case 10:
      a.sum_of_rounded = false;
      a.lazy = 0;
      break;
    case 11:
      contract.softcap_before_bias = false;
      break;
    case 12:
      if (policy[Stage::storage] == Format::f32) contract.policy.set(Stage::operand, Format::tf32);
      if (policy[Stage::storage] == Format::f64) contract.policy.set(Stage::operand, Format::f32);
      break;
    case 13:
      a.normalise_after = false;
      a.kv_tile_min = 16;
      break;
    default:
      break;
  }
  return contract;
}

}  // namespace attest::testing
