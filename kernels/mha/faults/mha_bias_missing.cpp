#include "kernels/mha/fused_block.hpp"
#include "kernels/mha/registry.hpp"

namespace attest::kernels::faults {
namespace {

struct BiasMissing : BlockSteps {
  static bool adds_bias(int projection) { return projection == 1; }  // without b_k alone softmax is what it was
};

}  // namespace

extern const BlockEntry mha_bias_missing{"mha-bias-missing",
                                         "the fused path drops the biases of q and v",
                                         "common slip",
                                         "fused",
                                         fused_block_contract,
                                         fused_block<BiasMissing>,
                                         false,
                                         "step left out",
                                         "q"};

}  // namespace attest::kernels::faults
