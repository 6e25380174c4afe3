#include "kernels/mha/registry.hpp"

#include <array>

#include "kernels/mha/explicit_block.hpp"
#include "kernels/mha/fused_block.hpp"

// The faults, one line each, in the order of the catalogue; each is defined in the file of its name.
#define ATTEST_BLOCK_FAULTS(ENTRY) \
  ENTRY(mha_qkv_order)             \
  ENTRY(mha_bias_missing)          \
  ENTRY(mha_head_transpose)        \
  ENTRY(mha_gemm_f16)              \
  ENTRY(mha_softmax_f16)

namespace attest::kernels {
namespace faults {
#define ATTEST_DECLARE(NAME) extern const BlockEntry NAME;
ATTEST_BLOCK_FAULTS(ATTEST_DECLARE)
#undef ATTEST_DECLARE
}  // namespace faults

std::span<const BlockEntry> builtin_blocks() {
  static const std::array blocks{
      BlockEntry{"explicit-block", "stage by stage; q, k, v and the concatenated heads are stored, products by Eigen",
                 "", "", explicit_block_contract, explicit_block<BlockSteps>, true},
      BlockEntry{"fused-block", "projection and attention in tiles of 16 tokens; q, k and v are never whole", "", "",
                 fused_block_contract, fused_block<BlockSteps>},
  };
  return blocks;
}

std::span<const BlockEntry> fault_blocks() {
#define ATTEST_COPY(NAME) faults::NAME,
  static const std::array blocks{ATTEST_BLOCK_FAULTS(ATTEST_COPY)};
#undef ATTEST_COPY
  return blocks;
}

}  // namespace attest::kernels
