#include "kernels/mha/explicit_block.hpp"
#include "kernels/mha/registry.hpp"

namespace attest::kernels::faults {
namespace {

struct SoftmaxF16 : BlockSteps {
  static Format softmax(const mha::Call&, const mha::Contract&) { return Format::f16; }
};

}  // namespace

extern const BlockEntry mha_softmax_f16{"mha-softmax-f16",
                                        "maximum, exp and sum are computed in f16 inside the block",
                                        "TRT#2674",
                                        "explicit",
                                        explicit_block_contract,
                                        explicit_block<SoftmaxF16>,
                                        true,
                                        "narrow softmax",
                                        "softmax"};

}  // namespace attest::kernels::faults
