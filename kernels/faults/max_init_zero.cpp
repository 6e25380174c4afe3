#include "kernels/faults/fault.hpp"

namespace attest::kernels::faults {
namespace {

struct MaxInitZero : CleanSteps {
  template <class Real>
  static constexpr Real first_largest = 0;
};

}  // namespace

extern constexpr KernelEntry max_init_zero = fault<CleanSteps, MaxInitZero>(
    "max-init-zero", "the running maximum starts at 0, so that rows of low scores vanish", "FA#2082", "fused",
    "maximum", "softmax");

}  // namespace attest::kernels::faults
