#include "kernels/faults/fault.hpp"

namespace attest::kernels::faults {
namespace {

struct BiasBroadcast : CleanSteps {
  template <class Real>
  static void cap_and_bias(const Call& call, Piece piece, Real* s) {
    piece.h = 0;
    CleanSteps::cap_and_bias(call, piece, s);
  }
};

}  // namespace

extern constexpr KernelEntry bias_broadcast =
    fault<CleanSteps, BiasBroadcast>("bias-broadcast", "the bias of head 0 is used for every head",
                                     "onnxruntime-genai#1639 family", "fused", "bias", "score");

}  // namespace attest::kernels::faults
