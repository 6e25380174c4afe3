#include "kernels/faults/fault.hpp"

namespace attest::kernels::faults {
namespace {

struct BatchMask : BatchSplitSteps {
  template <class Real>
  static void cap_and_bias(const Call& call, Piece piece, Real* s) {
    piece.b = 0;
    CleanSteps::cap_and_bias(call, piece, s);
  }
  template <class Real>
  static void mask(const Call& call, Piece piece, Real* s) {
    piece.b = 0;
    CleanSteps::mask(call, piece, s);
  }
};

}  // namespace

extern constexpr KernelEntry batch_mask =
    fault<BatchSplitSteps, BatchMask>("batch-mask", "the masks of sample 0 are used for every sample",
                                      "onnxruntime-genai#1639", "fused-batch-split", "mask lost", "mask");

}  // namespace attest::kernels::faults
