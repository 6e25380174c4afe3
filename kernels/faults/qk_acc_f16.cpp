#include "kernels/faults/fault.hpp"

namespace attest::kernels::faults {
namespace {

struct QkAccF16 : CleanSteps {
  static Format qk_format(const Call&) { return Format::f16; }
};

}  // namespace

extern constexpr KernelEntry qk_acc_f16 = fault<CleanSteps, QkAccF16>(
    "qk-acc-f16", "q.k is accumulated in f16", "TRT#3777, TensorRT-Model-Connect#790", "fused", "accumulator", "qk");

}  // namespace attest::kernels::faults
