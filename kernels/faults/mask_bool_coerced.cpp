#include "kernels/faults/fault.hpp"

namespace attest::kernels::faults {
namespace {

struct MaskBoolCoerced : CleanSteps {
  template <class Real>
  static void cap_and_bias(const Call& call, const Piece& piece, Real* s) {
    apply_softcap(call, s, piece.n);
    const std::array<Real, tile> bias = bias_of<Real, tile>(call, piece);
    for (Index j = 0; j < piece.n; ++j)
      if (bias[static_cast<std::size_t>(j)] != 0) s[j] = -std::numeric_limits<Real>::infinity();
  }
};

}  // namespace

extern constexpr KernelEntry mask_bool_coerced = fault<CleanSteps, MaskBoolCoerced>(
    "mask-bool-coerced", "the bias is taken for a boolean mask: what is not 0 closes its key", "PT#107084", "fused",
    "mask value", "mask");

}  // namespace attest::kernels::faults
