#include "kernels/mha/registry.hpp"

#include <algorithm>
#include <array>

#include "kernels/mha/explicit_block.hpp"
#include "kernels/mha/fused_block.hpp"

// The faults, one line each, in the order of the catalogue; each is defined in a file of faults/, those of one kind in
// one.
#define ATTEST_BLOCK_FAULTS(ENTRY) \
  ENTRY(mha_qkv_order)             \
  ENTRY(mha_bias_missing)          \
  ENTRY(mha_head_transpose)        \
  ENTRY(mha_gemm_f16)              \
  ENTRY(mha_softmax_f16)           \
  ENTRY(mha_layout_misread)        \
  ENTRY(mha_scale_twice)           \
  ENTRY(mha_scale_embed_dim)       \
  ENTRY(mha_causal_corner)         \
  ENTRY(mha_mask_dropped)          \
  ENTRY(mha_kv_length_ignored)     \
  ENTRY(mha_last_token)            \
  ENTRY(mha_batch_leak)            \
  ENTRY(mha_out_bias_missing)      \
  ENTRY(mha_out_transposed)        \
  ENTRY(mha_heads_interleaved)     \
  ENTRY(mha_gqa_modulo)            \
  ENTRY(mha_out_gemm_f16)          \
  ENTRY(mha_heads_bf16)            \
  ENTRY(mha_batch_path)            \
  ENTRY(mha_bias_separate)

namespace attest::kernels {
namespace faults {
#define ATTEST_DECLARE(NAME) extern const BlockEntry NAME;
ATTEST_BLOCK_FAULTS(ATTEST_DECLARE)
#undef ATTEST_DECLARE
}  // namespace faults

std::span<const BlockEntry> builtin_blocks() {
  static const std::array blocks{
      BlockEntry{"explicit", "stage by stage; q, k, v and the concatenated heads are stored, products by Eigen", "", "",
                 explicit_block_contract, explicit_block<BlockSteps>, true},
      BlockEntry{"separate", "as explicit; a product is stored before its bias is added, and stored again", "", "",
                 separate_block_contract, explicit_block<SeparateBias>, true},
      BlockEntry{"fused", "projection and attention in tiles of 16 tokens; q, k and v are never whole", "", "",
                 fused_block_contract, fused_block<BlockSteps>},
      BlockEntry{"unrounded", "as fused; q, k, v and the heads stay in the accumulators' format", "", "",
                 unrounded_block_contract, fused_block<Unrounded>},
  };
  return blocks;
}

const BlockEntry* find_kernel(std::span<const BlockEntry> blocks, std::string_view name) noexcept {
  const auto found = std::ranges::find(blocks, name, &BlockEntry::name);
  return found == blocks.end() ? nullptr : &*found;
}

std::span<const BlockEntry> fault_blocks() {
#define ATTEST_COPY(NAME) faults::NAME,
  static const std::array blocks{ATTEST_BLOCK_FAULTS(ATTEST_COPY)};
#undef ATTEST_COPY
  return blocks;
}

}  // namespace attest::kernels
