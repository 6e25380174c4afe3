#include "kernels/faults/fault.hpp"

namespace attest::kernels::faults {
namespace {

struct ScaleMissing : CleanSteps {
  template <class Real>
  static void scale(const Call& call, Real* s, Index n) {
    round_all(call[Stage::score], s, n);
  }
};

}  // namespace

extern constexpr KernelEntry scale_missing =
    fault<CleanSteps, ScaleMissing>("scale-missing", "the scale is not applied", "TT#33304", "fused", "scale", "scale");

}  // namespace attest::kernels::faults
