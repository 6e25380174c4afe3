#include "kernels/layer_norm/fused.hpp"

namespace attest::kernels::layer_norm::faults {
namespace {

struct PolicyIgnored : TwoPass {
  static Policy computes_in(const Call& call) {
    const Policy& policy = call.contract.policy;
    return Policy(Format::f16).set(Stage::storage, policy[Stage::storage]).set(Stage::output, policy[Stage::output]);
  }
};

}  // namespace

extern constexpr KernelEntry policy_ignored =
    fault<TwoPass, PolicyIgnored>("ln-policy-ignored", "whatever is asked for, f16 is what runs", "TRT#3889, #4505",
                                  "fused", "narrow sums", "statistics");

}  // namespace attest::kernels::layer_norm::faults
