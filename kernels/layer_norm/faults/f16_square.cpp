#include "kernels/layer_norm/fused.hpp"

namespace attest::kernels::layer_norm::faults {
namespace {

struct F16Square : TwoPass {
  template <class Real, class Round>
  static Real square(Round round, Real x) {
    return round(round_to(Format::f16, static_cast<Real>(x * x)));
  }
};

}  // namespace

extern constexpr KernelEntry f16_square =
    fault<TwoPass, F16Square>("ln-f16-square", "squares are made in f16, where they overflow and underflow", "TRT#2564",
                              "fused", "variance", "statistics");

}  // namespace attest::kernels::layer_norm::faults
