#include "kernels/mha/explicit_block.hpp"
#include "kernels/mha/registry.hpp"

namespace attest::kernels::faults {
namespace {

struct QkvOrder : BlockSteps {
  // The packed rows [3, heads, head_dim] read as [heads, 3, head_dim]; with grouped heads, whose rows differ in number,
  // k as v.
  static Source source(const mha::Call& call, int projection, Index row) {
    const Index d = call.head_dim, width = call.q_width();
    if (call.heads != call.kv_heads) return {projection == 0 ? 0 : 3 - projection, row};
    const Index at = (row / d * 3 + projection) * d + row % d;
    return {static_cast<int>(at / width), at % width};
  }
};

}  // namespace

extern const BlockEntry mha_qkv_order{"mha-qkv-order",
                                      "the packed projection is split in the wrong order",
                                      "common slip",
                                      "explicit",
                                      explicit_block_contract,
                                      explicit_block<QkvOrder>,
                                      true,
                                      "wrong operand",
                                      "q"};

}  // namespace attest::kernels::faults
