#include "kernels/faults/fault.hpp"

namespace attest::kernels::faults {
namespace {

struct TailIncluded : CleanSteps {
  static Index width(Index) { return tile; }
};

}  // namespace

extern constexpr KernelEntry tail_included =
    fault<CleanSteps, TailIncluded>("tail-included", "the padding of the last partial tile takes part as logit 0",
                                    "cudnn-frontend#53, PT#169222", "fused", "tail", "softmax");

}  // namespace attest::kernels::faults
