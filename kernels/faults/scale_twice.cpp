#include "kernels/faults/fault.hpp"

namespace attest::kernels::faults {
namespace {

struct ScaleTwice : CleanSteps {
  template <class Real>
  static void scale(const Call& call, Real* s, Index n) {
    apply_scale(call, s, n);
    apply_scale(call, s, n);
  }
};

}  // namespace

extern constexpr KernelEntry scale_twice =
    fault<CleanSteps, ScaleTwice>("scale-twice", "the scale is applied twice", "TRT#4333", "fused", "scale", "scale");

}  // namespace attest::kernels::faults
