#include "kernels/faults/fault.hpp"

namespace attest::kernels::faults {
namespace {

struct BatchPath : CleanSteps {
  static Format weights_format(const Call& call) {
    const Format promised = call[Stage::weights];
    if (call.b == 1) return promised;
    switch (promised) {
      case Format::f64:
        return Format::f32;
      case Format::f32:
        return Format::f16;
      default:
        return Format::bf16;
    }
  }
};

}  // namespace

extern constexpr KernelEntry batch_path =
    fault<CleanSteps, BatchPath>("batch-path", "with more than one sample the weights are rounded to a narrower format",
                                 "TRT#4796, #4853, #4813, #3730, #3744", "fused", "narrow weights", "weights");

}  // namespace attest::kernels::faults
