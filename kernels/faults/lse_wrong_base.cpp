#include "kernels/faults/fault.hpp"

namespace attest::kernels::faults {
namespace {

struct LseWrongBase : CleanSteps {
  template <class Real>
  static void write_output(const Call& call, Index b, Index h, Index i, Real* row, Real lse) {
    CleanSteps::write_output(call, b, h, i, row, lse * std::numbers::log2e_v<Real>);
  }
};

}  // namespace

extern constexpr KernelEntry lse_wrong_base = fault<CleanSteps, LseWrongBase>(
    "lse-wrong-base", "the log-sum-exp is in base 2", "FI#50, #58, PT#156379", "fused", "log-sum-exp", "lse");

}  // namespace attest::kernels::faults
