#include "kernels/layer_norm/fused.hpp"

namespace attest::kernels::layer_norm::faults {
namespace {

struct EpsOutside : TwoPass {
  template <class Real, class Round>
  static Real inverse_root(Round round, Real variance, Real epsilon) {
    return round(Real{1} / round(round(std::sqrt(variance)) + epsilon));
  }
};

}  // namespace

extern constexpr KernelEntry eps_outside =
    fault<TwoPass, EpsOutside>("ln-eps-outside", "epsilon is added to the root instead of under it", "common slip",
                               "fused", "epsilon", "statistics");

}  // namespace attest::kernels::layer_norm::faults
