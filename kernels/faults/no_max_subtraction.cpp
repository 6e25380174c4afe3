#include "kernels/faults/fault.hpp"

namespace attest::kernels::faults {
namespace {

struct NoMaxSubtraction : CleanSteps {
  // The running maximum stays at 0.
  template <class Real>
  static constexpr Real first_largest = 0;
  static double lag(const Policy&) { return std::numeric_limits<double>::infinity(); }
};

}  // namespace

extern constexpr KernelEntry no_max_subtraction = fault<CleanSteps, NoMaxSubtraction>(
    "no-max-subtraction", "the maximum is not subtracted before exp", "TT#12661", "fused", "maximum", "softmax");

}  // namespace attest::kernels::faults
