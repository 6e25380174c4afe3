#include "kernels/faults/fault.hpp"

namespace attest::kernels::faults {
namespace {

struct OutputClamped : CleanSteps {
  template <class Real>
  static void normalise(const Call& call, Real total, Real* output) {
    CleanSteps::normalise(call, total, output);
    // min() is the smallest positive number; lowest() was meant.
    for (Index c = 0; c < call.dv; ++c)
      if (output[c] < std::numeric_limits<Real>::min()) output[c] = std::numeric_limits<Real>::min();
  }
};

}  // namespace

extern constexpr KernelEntry output_clamped = fault<CleanSteps, OutputClamped>(
    "output-clamped", "the output is clamped from below at the smallest positive number", "common slip", "fused",
    "output", "output");

}  // namespace attest::kernels::faults
