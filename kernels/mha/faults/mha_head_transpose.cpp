#include "kernels/mha/explicit_block.hpp"
#include "kernels/mha/registry.hpp"

namespace attest::kernels::faults {
namespace {

struct HeadTranspose : BlockSteps {
  // [heads, l, head_dim] taken for [l, heads, head_dim] as it lies.
  static Place concatenated(const mha::Call& call, Index h, Index i, Index c) {
    const Index at = (h * call.l() + i) * call.head_dim + c;
    return {at / call.q_width(), at % call.q_width()};
  }
};

}  // namespace

extern const BlockEntry mha_head_transpose{"mha-head-transpose",
                                           "the heads are concatenated without the transpose",
                                           "S0",
                                           "explicit",
                                           explicit_block_contract,
                                           explicit_block<HeadTranspose>,
                                           true,
                                           "layout",
                                           "heads"};

}  // namespace attest::kernels::faults
