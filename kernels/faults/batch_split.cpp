#include "kernels/faults/fault.hpp"

namespace attest::kernels::faults {

// The parent promises bits that do not depend on the batch; this kernel breaks that promise.
extern constexpr KernelEntry batch_split = fault<SplitSteps, BatchSplitSteps>(
    "batch-split", "the number of splits depends on the batch, so that a sample alone has other bits",
    "FI#2424, vllm#51902", "fused-split", "splits", "partial");

}  // namespace attest::kernels::faults
