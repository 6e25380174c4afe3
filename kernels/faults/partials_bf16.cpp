#include "kernels/faults/fault.hpp"

namespace attest::kernels::faults {
namespace {

struct PartialsBf16 : SplitSteps {
  template <class Real>
  static void normalise(const Call& call, Real total, Real* output) {
    SplitSteps::normalise(call, total, output);
    round_all(Format::bf16, output, call.dv);
  }
};

}  // namespace

extern constexpr KernelEntry partials_bf16 =
    fault<SplitSteps, PartialsBf16>("partials-bf16", "the partial results of the splits are rounded to bf16", "FI#5107",
                                    "fused-split", "partial results", "partial");

}  // namespace attest::kernels::faults
