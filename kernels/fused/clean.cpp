#include "kernels/fused/clean.hpp"

#include "kernels/fused/fused.hpp"

namespace attest::kernels {

void clean_attention(const attest_attention& attention, const Contract& contract) {
  fused_attention<CleanSteps>(attention, contract);
}

}  // namespace attest::kernels
