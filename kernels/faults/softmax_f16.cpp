#include "kernels/faults/fault.hpp"

namespace attest::kernels::faults {
namespace {

void with_narrow_softmax(const attest_attention& attention, const Contract& contract) {
  Contract narrow = contract;
  narrow.policy.set(Stage::softmax, Format::f16);
  fused_attention<CleanSteps>(attention, narrow);
}

}  // namespace

extern constexpr KernelEntry softmax_f16{"softmax-f16",
                                         "maximum, exp and sum are computed in f16",
                                         "TRT#2674",
                                         "fused",
                                         "narrow softmax",
                                         "softmax",
                                         fused_contract<CleanSteps>,
                                         with_narrow_softmax};

}  // namespace attest::kernels::faults
