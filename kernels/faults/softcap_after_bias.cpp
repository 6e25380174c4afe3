#include "kernels/faults/fault.hpp"

namespace attest::kernels::faults {
namespace {

struct SoftcapAfterBias : CleanSteps {
  template <class Real>
  static void cap_and_bias(const Call& call, const Piece& piece, Real* s) {
    Call swapped = call;
    swapped.softcap_before_bias = !call.softcap_before_bias;
    CleanSteps::cap_and_bias(swapped, piece, s);
  }
};

}  // namespace

extern constexpr KernelEntry softcap_after_bias = fault<CleanSteps, SoftcapAfterBias>(
    "softcap-after-bias", "softcap and bias are applied in the other order",
    "TransformerEngine#3391, ORT#28370, emx-onnx-cgen#731", "fused", "softcap", "softcap");

}  // namespace attest::kernels::faults
