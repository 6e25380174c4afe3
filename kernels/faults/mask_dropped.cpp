#include "kernels/faults/fault.hpp"

namespace attest::kernels::faults {
namespace {

struct MaskDropped : CleanSteps {
  template <class Real>
  static void mask(const Call& call, const Piece& piece, Real* s) {
    Call seen = call;
    if (call.lq == 1) seen.keep = {};
    CleanSteps::mask(seen, piece, s);
  }
};

}  // namespace

extern constexpr KernelEntry mask_dropped =
    fault<CleanSteps, MaskDropped>("mask-dropped", "the path for a single query ignores the keep mask",
                                   "keras#23038, pytorch/TensorRT#3296", "fused", "mask lost", "mask");

}  // namespace attest::kernels::faults
