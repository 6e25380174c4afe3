#include <vector>

#include "core/rng.hpp"
#include "kernels/emulated/emulator.hpp"

namespace attest::emulator {

constexpr std::uint64_t error_kinds = 8;

Variant draw_variant(const Contract& contract, const Problem& problem, std::uint64_t seed) {
  std::uint64_t key = mix(seed);
  const auto pick = [&](std::uint64_t n) { return below(key = mix(key), n); };
  const Arithmetic& a = contract.arithmetic;
  Variant v;
  v.seed = mix(key);
  v.qk = static_cast<Order>(pick(5));
  v.pv = static_cast<Order>(pick(5));
  v.row_sum = static_cast<Order>(pick(5));
  v.fma = pick(2) != 0;
  v.exp2 = a.exp2 && pick(2) != 0;
  v.reversed = a.key_order == KeyOrder::descending || (a.key_order == KeyOrder::any && pick(2) != 0);
  v.guard_empty = pick(4) != 0;
  v.reciprocal = pick(2) != 0;
  v.truncate_qk = v.truncate_pv = v.truncate_sum = a.kappa >= 3 && pick(2) != 0;
  for (Error* error : {&v.exp_error, &v.tanh_error, &v.div_error}) *error = static_cast<Error>(pick(error_kinds));
  v.rescale_error = v.exp_error;
  const double scale = problem.effective_scale();
  switch (pick(5)) {
    case 1:
      if (a.fold_q) v.scale_on = ScaleOn::q;
      break;
    case 2:
      if (a.fold_k) v.scale_on = ScaleOn::k;
      break;
    case 3:
      if (a.exp2 && scale > 0) v.scale_on = ScaleOn::exponent;
      break;
    case 4:
      if (a.fold_sqrt && scale > 0) v.scale_on = ScaleOn::square_roots;
      break;
    default:
      break;
  }
  constexpr Index tiles[] = {1, 2, 4, 16, 64, 1 << 30};
  do v.tile = tiles[pick(6)];
  while (v.tile < a.kv_tile_min);
  std::vector<Normalise> ways;
  if (a.normalise_after) ways.insert(ways.end(), {Normalise::online, Normalise::online, Normalise::after});
  if (a.normalise_before) ways.push_back(Normalise::before);
  if (a.normalise_lse) ways.push_back(Normalise::by_lse);
  v.normalise = ways[pick(ways.size())];
  v.sum_of_rounded = a.sum_of_rounded && (!a.sum_of_unrounded || pick(2) != 0);
  if (a.lse_merge != LseMerge::none && pick(3) == 0)
    v.splits = 1 + static_cast<Index>(pick(a.splits_max ? static_cast<std::uint64_t>(*a.splits_max) : 6));
  v.merge = static_cast<Merge>(pick(2));
  if (a.lse_merge == LseMerge::chain && pick(2) != 0) v.merge = Merge::chain;
  if (a.merge_weights == MergeWeights::lse && pick(2) != 0)
    v.merge = v.merge == Merge::chain ? Merge::chain_by_lse : Merge::by_lse;
  v.lazy = pick(3) == 0 ? contract.lazy_nats() : 0;
  v.in_octaves = v.exp2 && a.folds_log2_e() && pick(2) != 0;
  v.round_scaled = pick(2) != 0;
  v.store_unscaled = pick(4) == 0;
  if (a.mma) {
    for (Blocks* blocks : {&v.blocks_qk, &v.blocks_pv, &v.blocks_sum}) *blocks = static_cast<Blocks>(pick(4));
    for (Blocks* blocks : {&v.blocks_qk, &v.blocks_pv})
      if (a.mma->only && (*blocks == Blocks::none || *blocks == Blocks::half)) *blocks = Blocks::chained;
    constexpr Index times[] = {1, 1, 2, 4};
    v.blocks_at_once = times[pick(4)];
    v.cut_operands = contract.policy[Stage::operand] == Format::tf32 && pick(2) != 0;
  }
  return v;
}

}  // namespace attest::emulator
