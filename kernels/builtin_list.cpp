#include <array>

#include "kernels/explicit/explicit.hpp"
#include "kernels/fused/variants.hpp"
#include "kernels/registry.hpp"

namespace attest::kernels {
namespace {

template <class Steps>
constexpr KernelEntry fused(std::string_view name, std::string_view doc) {
  return {name, doc, "", "", fused_contract<Steps>, fused_attention<Steps>};
}

constexpr std::array builtin{
    fused<CleanSteps>("fused", "tiles of 64 keys and an online softmax; no row of scores is ever stored"),
    KernelEntry{"explicit", "stage by stage; scores and weights are stored", "", "", explicit_contract,
                explicit_attention},
    fused<TileSteps<1>>("fused-tile1", "fused, a key at a time"),
    fused<TileSteps<16>>("fused-tile16", "fused, tiles of 16 keys"),
    fused<TileSteps<64>>("fused-tile64", "fused, tiles of 64 keys"),
    fused<TileSteps<128>>("fused-tile128", "fused, tiles of 128 keys"),
    fused<SplitSteps>("fused-split", "fused, the keys in up to 4 splits of 16-key tiles, merged by their log-sum-exp"),
    fused<Exp2Steps>("fused-exp2", "fused, exp(x) as 2^(x log2 e)"),
    fused<ReversedSteps>("fused-reversed", "fused, from the last key to the first"),
    fused<ScaledQuerySteps>("fused-scale-q", "fused, the scale folded into the queries"),
};

}  // namespace

std::span<const KernelEntry> builtin_kernels() { return builtin; }

}  // namespace attest::kernels
