#include "kernels/mha/registry.hpp"

#include <algorithm>
#include <array>

#include "kernels/mha/explicit_block.hpp"
#include "kernels/mha/fused_block.hpp"

// The faults, one line each, in the order of the catalogue; each is defined in the file of its name.
#define ATTEST_BLOCK_FAULTS(ENTRY) \
  ENTRY(mha_qkv_order)             \
  ENTRY(mha_bias_missing)          \
  ENTRY(mha_head_transpose)        \
  ENTRY(mha_gemm_f16)              \
  ENTRY(mha_softmax_f16)           \
  ENTRY(mha_layout_misread)

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
