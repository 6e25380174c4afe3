#include "kernels/faults/fault.hpp"

namespace attest::kernels::faults {
namespace {

struct ScaleOnValue : CleanSteps {
  template <class Real>
  static void scale(const Call& call, Real* s, Index n) {
    round_all(call[Stage::score], s, n);
  }
  template <class Real>
  static void normalise(const Call& call, Real total, Real* output) {
    CleanSteps::normalise(call, total, output);
    scale_all(call[Stage::pv], static_cast<Real>(call.scale), output, call.dv);
  }
};

}  // namespace

extern constexpr KernelEntry scale_on_value =
    fault<CleanSteps, ScaleOnValue>("scale-on-value", "the scale is applied to the output instead of the scores",
                                    "TRT#4333", "fused", "scale", "scale");

}  // namespace attest::kernels::faults
