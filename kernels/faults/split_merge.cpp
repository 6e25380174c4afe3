#include "kernels/faults/fault.hpp"

namespace attest::kernels::faults {
namespace {

struct SplitMerge : SplitSteps {
  template <class Real>
  static Real split_lse(Real lse) {
    return lse == -std::numeric_limits<Real>::infinity() ? lse : Real{0};
  }
};

}  // namespace

extern constexpr KernelEntry split_merge = fault<SplitSteps, SplitMerge>(
    "split-merge", "the splits are merged without their log-sum-exp, each with the same weight", "FI#50, #58",
    "fused-split", "splits", "partial");

}  // namespace attest::kernels::faults
