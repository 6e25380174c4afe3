#include "kernels/faults/fault.hpp"

namespace attest::kernels::faults {
namespace {

void without_lengths(const attest_attention& attention, const Contract& contract) {
  attest_attention whole = attention;
  whole.kv_lengths = {};
  fused_attention<CleanSteps>(whole, contract);
}

}  // namespace

extern constexpr KernelEntry kv_length_ignored{"kv-length-ignored",
                                               "key lengths are ignored",
                                               "jax#23349",
                                               "fused",
                                               "mask lost",
                                               "mask",
                                               fused_contract<CleanSteps>,
                                               without_lengths};

}  // namespace attest::kernels::faults
