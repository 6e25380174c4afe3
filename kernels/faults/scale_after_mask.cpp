#include "kernels/faults/fault.hpp"

namespace attest::kernels::faults {
namespace {

struct ScaleAfterMask : CleanSteps {
  template <class Real>
  static void cap_and_bias(const Call& call, const Piece& piece, Real* s) {
    if (!call.bias) return CleanSteps::cap_and_bias(call, piece, s);
    std::array<Real, tile> bias = bias_of<Real, tile>(call, piece);
    apply_scale(call, bias.data(), piece.n);
    cap_and_add(call, piece, bias.data(), s);
  }
};

}  // namespace

extern constexpr KernelEntry scale_after_mask = fault<CleanSteps, ScaleAfterMask>(
    "scale-after-mask", "the bias is scaled together with the scores", "common slip", "fused", "scaled bias", "score");

}  // namespace attest::kernels::faults
