#include "kernels/faults/fault.hpp"

namespace attest::kernels::faults {
namespace {

struct CausalCorner : CleanSteps {
  static Index diagonal(const Call& call, Index i, Index length) {
    const Align other = call.align == Align::top_left ? Align::bottom_right : Align::top_left;
    return kernels::diagonal(other, i, length, call.lq);
  }
};

}  // namespace

extern constexpr KernelEntry causal_corner =
    fault<CleanSteps, CausalCorner>("causal-corner", "the diagonal is measured from the other corner",
                                    "ORT#29020, MLX#2835, FA#282, #402", "fused", "diagonal", "mask");

}  // namespace attest::kernels::faults
