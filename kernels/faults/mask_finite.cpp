#include "kernels/faults/fault.hpp"

namespace attest::kernels::faults {
namespace {

struct MaskFinite : CleanSteps {
  template <class Real>
  static void mask(const Call& call, const Piece& piece, Real* s) {
    apply_mask(call, piece, Real{-10000}, s);
  }
};

}  // namespace

extern constexpr KernelEntry mask_finite = fault<CleanSteps, MaskFinite>(
    "mask-finite", "masked scores are -10000, not -inf, and leak when all others are lower", "nntrainer#4333", "fused",
    "mask value", "mask");

}  // namespace attest::kernels::faults
