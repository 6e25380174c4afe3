#include "kernels/layer_norm/fused.hpp"

namespace attest::kernels::layer_norm::faults {
namespace {

struct VarianceCancel : TwoPass {
  template <class Steps, class Real, class Round>
  static Moments<Real> moments(Round round, const Real* x, Index n) {
    return OnePass::moments<Steps>(round, x, n);
  }
};

}  // namespace

extern constexpr KernelEntry variance_cancel = fault<TwoPass, VarianceCancel>(
    "ln-variance-cancel", "the variance is E[x^2] - E[x]^2 under a contract of two passes",
    "PT#51102, #190491, burn#5607, ORT#28463, MLX#2238", "fused", "variance", "statistics");

}  // namespace attest::kernels::layer_norm::faults
