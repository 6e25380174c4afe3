#include "kernels/faults/fault.hpp"

namespace attest::kernels::faults {
namespace {

struct MaskLowestInfinite : CleanSteps {
  template <class Real>
  static void cap_and_bias(const Call& call, const Piece& piece, Real* s) {
    std::array<Real, tile> bias = bias_of<Real, tile>(call, piece);
    if (call.bias)
      for (Real& b : bias)
        if (b <= -largest_finite(format_of(call.bias.type))) b = -std::numeric_limits<Real>::infinity();
    cap_and_add(call, piece, bias.data(), s);
  }
};

}  // namespace

extern constexpr KernelEntry mask_lowest_infinite = fault<CleanSteps, MaskLowestInfinite>(
    "mask-lowest-infinite", "a bias of the lowest finite number is taken for -inf", "common slip", "fused",
    "mask value", "mask");

}  // namespace attest::kernels::faults
