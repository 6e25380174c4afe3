#include <cmath>

#include "kernels/faults/fault.hpp"

namespace attest::kernels::faults {
namespace {

struct ScaleDefaultKept : CleanSteps {
  template <class Real>
  static void scale(const Call& call, Real* s, Index n) {
    Call usual = call;
    usual.scale = round_to(call[Stage::scale], 1 / std::sqrt(static_cast<double>(call.d)));
    apply_scale(usual, s, n);
  }
};

}  // namespace

extern constexpr KernelEntry scale_default_kept =
    fault<CleanSteps, ScaleDefaultKept>("scale-default-kept", "the scale is always 1/sqrt(D), whatever the call says",
                                        "PT#174361, #174049, #151098", "fused", "scale", "scale");

}  // namespace attest::kernels::faults
