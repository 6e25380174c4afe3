#include <cmath>

#include "kernels/faults/fault.hpp"

namespace attest::kernels::faults {
namespace {

void scaled_by_all_heads(const attest_attention& attention, const Contract& contract) {
  attest_attention call = attention;
  if (call.flags & ATTEST_SCALE_IS_DEFAULT) call.scale /= std::sqrt(static_cast<double>(call.q.shape[1]));
  fused_attention<CleanSteps>(call, contract);
}

}  // namespace

extern constexpr KernelEntry scale_embed_dim{"scale-embed-dim",
                                             "the default scale is 1/sqrt(Hq D), the width of all heads, not 1/sqrt(D)",
                                             "common slip",
                                             "fused",
                                             "scale",
                                             "scale",
                                             fused_contract<CleanSteps>,
                                             scaled_by_all_heads};

}  // namespace attest::kernels::faults
