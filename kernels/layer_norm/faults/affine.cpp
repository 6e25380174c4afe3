// gamma and beta.
#include "kernels/layer_norm/fused.hpp"

namespace attest::kernels::layer_norm::faults {
namespace {

struct BetaFirst : TwoPass {
  template <class Real, class Round>
  static Real affine(const Policy&, Round round, Real y, Real gamma, Real beta) {
    return round(round(round(y) + beta) * gamma);
  }
};

struct NormRounded : TwoPass {
  template <class Real, class Round>
  static Real affine(const Policy& policy, Round round, Real y, Real gamma, Real beta) {
    return TwoPass::affine(policy, round, static_cast<Real>(round_to(policy[Stage::storage], y)), gamma, beta);
  }
};

}  // namespace

extern constexpr KernelEntry beta_first = fault<TwoPass, BetaFirst>(
    "ln-beta-first", "beta is added before gamma is applied", "common slip", "fused", "affine order", "affine");
extern constexpr KernelEntry norm_rounded =
    fault<TwoPass, NormRounded>("ln-norm-rounded", "the normalised value is rounded to storage before gamma meets it",
                                "common slip", "fused", "norm rounded", "normalise");

}  // namespace attest::kernels::layer_norm::faults
