#include "kernels/faults/fault.hpp"

namespace attest::kernels::faults {
namespace {

struct RescaleSumOnly : CleanSteps {
  template <class Real>
  static void rescale_output(const Call&, Real, Real*) {}
};

}  // namespace

extern constexpr KernelEntry rescale_sum_only = fault<CleanSteps, RescaleSumOnly>(
    "rescale-sum-only", "when a later tile raises the maximum the row sum is rescaled, the output so far is not",
    "aprender#2753", "fused", "rescale", "softmax");

}  // namespace attest::kernels::faults
