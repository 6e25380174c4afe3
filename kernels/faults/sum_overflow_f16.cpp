#include <cmath>

#include "kernels/faults/fault.hpp"

namespace attest::kernels::faults {
namespace {

struct SumOverflowF16 : CleanSteps {
  // The range of f16, not its precision: that is softmax-f16.
  template <class Real>
  static void add_to_total(const Call& call, const Real* weights, Index n, Real& total) {
    CleanSteps::add_to_total(call, weights, n, total);
    if (std::isinf(round_to(Format::f16, total))) total = std::numeric_limits<Real>::infinity();
  }
};

}  // namespace

extern constexpr KernelEntry sum_overflow_f16 = fault<CleanSteps, SumOverflowF16>(
    "sum-overflow-f16", "the row sum has the range of f16 and overflows past 65504 keys", "autoware-ml#95", "fused",
    "narrow softmax", "softmax");

}  // namespace attest::kernels::faults
