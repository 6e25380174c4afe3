#include "kernels/faults/fault.hpp"

namespace attest::kernels::faults {
namespace {

struct CausalOffByOne : CleanSteps {
  static Index diagonal(const Call& call, Index i, Index length) { return CleanSteps::diagonal(call, i, length) + 1; }
};

}  // namespace

extern constexpr KernelEntry causal_off_by_one = fault<CleanSteps, CausalOffByOne>(
    "causal-off-by-one", "the diagonal lies one key too far to the right: a future key is seen", "zml#763, vllm#3385",
    "fused", "diagonal", "mask");

}  // namespace attest::kernels::faults
