#include "kernels/faults/fault.hpp"

namespace attest::kernels::faults {
namespace {

struct Steps : SplitSteps {
  static Index splits(const Call& call) { return call.b == 1 ? splits_max : splits_max / 2; }
};

}  // namespace

extern constexpr KernelEntry batch_split = fault<SplitSteps, Steps>(
    "batch-split", "the number of splits depends on the batch, so that a sample alone has other bits",
    "FI#2424, vllm#51902", "fused-split");

}  // namespace attest::kernels::faults
