#include "kernels/faults/fault.hpp"

namespace attest::kernels::faults {
namespace {

struct LseEmpty : CleanSteps {
  template <class Real>
  static void write_output(const Call& call, Index b, Index h, Index i, Real* row, Real lse) {
    CleanSteps::write_output(call, b, h, i, row, lse == -std::numeric_limits<Real>::infinity() ? Real{0} : lse);
  }
};

}  // namespace

extern constexpr KernelEntry lse_empty = fault<CleanSteps, LseEmpty>(
    "lse-empty", "the log-sum-exp of a row without open keys is 0", "FA#978, #2842", "fused", "log-sum-exp", "lse");

}  // namespace attest::kernels::faults
