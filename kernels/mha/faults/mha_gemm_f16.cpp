#include "kernels/mha/fused_block.hpp"
#include "kernels/mha/registry.hpp"

namespace attest::kernels::faults {
namespace {

struct GemmF16 : BlockSteps {
  static Format gemm(const mha::Contract&) { return Format::f16; }
};

}  // namespace

extern const BlockEntry mha_gemm_f16{"mha-gemm-f16",
                                     "the projections accumulate in f16 inside the fused block",
                                     "TRT#3777",
                                     "fused",
                                     fused_block_contract,
                                     fused_block<GemmF16>,
                                     false,
                                     "narrow sums",
                                     "gemm"};

}  // namespace attest::kernels::faults
