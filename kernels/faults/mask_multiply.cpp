#include "kernels/faults/fault.hpp"

namespace attest::kernels::faults {
namespace {

struct MaskMultiply : CleanSteps {
  template <class Real>
  static void mask(const Call& call, const Piece& piece, Real* s) {
    apply_mask(call, piece, Real{0}, s);
  }
};

}  // namespace

extern constexpr KernelEntry mask_multiply =
    fault<CleanSteps, MaskMultiply>("mask-multiply", "masked scores are multiplied by 0 instead of set to -inf",
                                    "openxla/xla#11444", "fused", "mask value", "mask");

}  // namespace attest::kernels::faults
