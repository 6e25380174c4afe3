#include "kernels/faults/fault.hpp"

namespace attest::kernels::faults {
namespace {

struct BatchLeak : CleanSteps {
  static Index value_sample(Index) { return 0; }
};

}  // namespace

extern constexpr KernelEntry batch_leak =
    fault<CleanSteps, BatchLeak>("batch-leak", "every sample weighs the values of sample 0",
                                 "PT#139462, onnxruntime-genai#1639", "fused", "other sample or head", "reading");

}  // namespace attest::kernels::faults
