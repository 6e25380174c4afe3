#include "kernels/faults/fault.hpp"

namespace attest::kernels::faults {
namespace {

struct RescaleTail : TileSteps<16> {
  template <class Real>
  static void rescale_output(const Call& call, Real factor, Real* output) {
    const auto rounded = static_cast<Real>(round_to(call[Stage::pv], factor));
    scale_all(call[Stage::pv], rounded, output, call.dv / padding * padding);
  }
};

}  // namespace

extern constexpr KernelEntry rescale_tail = fault<TileSteps<16>, RescaleTail>(
    "rescale-tail", "columns past the last whole register are not rescaled when a later tile raises the maximum",
    "aprender#2753", "fused-tile16", "rescale", "softmax");

}  // namespace attest::kernels::faults
