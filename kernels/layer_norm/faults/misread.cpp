// Calls that are read as others.
#include "kernels/layer_norm/fused.hpp"

namespace attest::kernels::layer_norm::faults {
namespace {

void keep_mean(const attest_layer_norm& tensors, const Contract& contract) {
  attest_layer_norm other = tensors;
  other.rms = 1;
  fused_layer_norm<TwoPass>(other, contract);
}

void centre(const attest_layer_norm& tensors, const Contract& contract) {
  attest_layer_norm other = tensors;
  other.rms = 0;
  fused_layer_norm<TwoPass>(other, contract);
}

void take_default_epsilon(const attest_layer_norm& tensors, const Contract& contract) {
  attest_layer_norm other = tensors;
  other.epsilon = 1e-5;
  fused_layer_norm<TwoPass>(other, contract);
}

// Rows that lie apart, read as if one followed the other.
void pack(const attest_layer_norm& tensors, const Contract& contract) {
  attest_layer_norm other = tensors;
  const std::int64_t n = tensors.x.shape[1];
  std::int64_t packed[] = {n, 1};
  if (tensors.x.strides[0] >= n && tensors.x.strides[1] >= 1) other.x.strides = packed;
  fused_layer_norm<TwoPass>(other, contract);
}

void add_first_row(const attest_layer_norm& tensors, const Contract& contract) {
  attest_layer_norm other = tensors;
  std::int64_t broadcast[] = {0, 1};
  if (attest_present(&tensors.residual)) {
    broadcast[1] = tensors.residual.strides[1];
    other.residual.strides = broadcast;
  }
  fused_layer_norm<TwoPass>(other, contract);
}

void add_one_to_gamma(const attest_layer_norm& tensors, const Contract& contract) {
  Contract other = contract;
  other.gamma_offset = 1;
  fused_layer_norm<TwoPass>(tensors, other);
}

}  // namespace

extern constexpr KernelEntry mean_kept = misreading(
    keep_mean, "ln-mean-kept", "RMSNorm is computed in place of LayerNorm", "common slip", "mean", "statistics");
extern constexpr KernelEntry rms_centred = misreading(
    centre, "ln-rms-centred", "LayerNorm is computed in place of RMSNorm", "common slip", "mean", "statistics");
extern constexpr KernelEntry eps_default =
    misreading(take_default_epsilon, "ln-eps-default", "epsilon is 1e-5 whatever the caller says", "common slip",
               "epsilon", "statistics");
extern constexpr KernelEntry strides_ignored = misreading(
    pack, "ln-strides-ignored", "rows that lie apart are read as packed", "PT#112577, #181133", "layout", "reading");
extern constexpr KernelEntry residual_first_row =
    misreading(add_first_row, "ln-residual-first-row", "the residual of the first row is added to every row",
               "common slip", "residual", "reading");

extern constexpr KernelEntry gamma_offset =
    misreading(add_one_to_gamma, "ln-gamma-offset", "1 is added to a gamma that is stored whole", "common slip",
               "gamma", "affine");

}  // namespace attest::kernels::layer_norm::faults
