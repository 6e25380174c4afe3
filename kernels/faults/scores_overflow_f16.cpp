#include <cmath>

#include "kernels/faults/fault.hpp"

namespace attest::kernels::faults {
namespace {

struct ScoresOverflowF16 : CleanSteps {
  // The range of f16, not its precision: that is qk-acc-f16.
  template <class Real>
  static void dot(const Call& call, Format format, const Real* q, const Real* keys, Index width, Real* dots) {
    CleanSteps::dot(call, format, q, keys, width, dots);
    for (Index j = 0; j < width; ++j)
      if (std::isinf(round_to(Format::f16, dots[j])))
        dots[j] = std::copysign(std::numeric_limits<Real>::infinity(), dots[j]);
  }
};

}  // namespace

extern constexpr KernelEntry scores_overflow_f16 = fault<CleanSteps, ScoresOverflowF16>(
    "scores-overflow-f16", "scores have the range of f16 before the scale is applied", "LC#7805", "fused",
    "accumulator", "qk");

}  // namespace attest::kernels::faults
