#include <array>

#include "kernels/explicit/explicit.hpp"
#include "kernels/fused/any_scale.hpp"
#include "kernels/fused/clean.hpp"
#include "kernels/fused/variants.hpp"
#include "kernels/registry.hpp"

namespace attest::kernels {
namespace {

template <class Steps>
constexpr KernelEntry fused(std::string_view name, std::string_view doc) {
  return {name, doc, "", "", "", "", fused_contract<Steps>, fused_attention<Steps>};
}

constexpr std::array builtin{
    KernelEntry{"fused", "tiles of 64 keys and an online softmax; no row of scores is ever stored", "", "", "", "",
                fused_contract<CleanSteps>, clean_attention},
    KernelEntry{"explicit", "stage by stage; scores and weights are stored, weights divided before they are rounded",
                "", "", "", "", explicit_contract, explicit_attention},
    KernelEntry{"explicit-lse", "explicit, weights exp(s - lse) without a division", "", "", "", "",
                explicit_lse_contract, explicit_lse_attention},
    fused<TileSteps<1>>("fused-tile1", "fused, a key at a time"),
    fused<TileSteps<16>>("fused-tile16", "fused, tiles of 16 keys"),
    fused<TileSteps<64>>("fused-tile64", "fused, tiles of 64 keys"),
    fused<TileSteps<128>>("fused-tile128", "fused, tiles of 128 keys"),
    fused<SplitSteps>("fused-split", "fused, the keys in up to 4 splits of 16-key tiles, merged by their log-sum-exp"),
    fused<BatchSplitSteps>("fused-batch-split",
                           "fused-split with fewer splits for a batch; not bitwise batch invariant"),
    fused<SplitChainSteps>("fused-split-chain", "fused-split, each split merged into what is merged already"),
    fused<SplitLseWeightsSteps>("fused-split-lse-weights", "fused-split, partial results weighed by exp(lse_s - lse)"),
    fused<LazySteps>("fused-lazy",
                     "fused, tiles of 16 keys, rescaled only where the maximum rises by more than 8 ln 2"),
    fused<SumRoundedSteps>("fused-sum-rounded", "fused, the row sum taken over the rounded weights"),
    fused<TruncatingSteps>("fused-truncating", "fused, accumulators that truncate (kappa 3)"),
    fused<VoltaSteps>("fused-volta", "fused, products in blocks as Volta's tensor cores add them (mma 4/23/f32/only)"),
    fused<AmpereSteps>("fused-ampere",
                       "fused, products in blocks as Ampere's tensor cores add them (mma 8/24/f32/only)"),
    fused<HopperSteps>("fused-hopper",
                       "fused, products in blocks as Hopper's tensor cores add them (mma 8/25/f32/only)"),
    fused<FlushSteps>("fused-flush", "fused, subnormal inputs and results flushed to zero"),
    fused<PoorExpSteps>("fused-poor-exp", "fused, an exp of up to 20 ulp"),
    fused<Exp2Steps>("fused-exp2", "fused, exp(x) as 2^(x log2 e)"),
    fused<ReversedSteps>("fused-reversed", "fused, from the last key to the first"),
    fused<ScaledQuerySteps>("fused-scale-q", "fused, the scale folded into the queries"),
    fused<ScaledKeySteps>("fused-scale-k", "fused, the scale folded into the keys"),
    fused<ScaledRootsSteps>("fused-scale-sqrt", "fused, the root of a positive scale folded into queries and keys"),
    KernelEntry{"fused-forms", "fused, with a form that says where the scale goes", "", "", "", "", any_scale_contract,
                any_scale_attention<ScaledQuerySteps>, any_scale_forms},
};

}  // namespace

std::span<const KernelEntry> builtin_kernels() { return builtin; }

}  // namespace attest::kernels
