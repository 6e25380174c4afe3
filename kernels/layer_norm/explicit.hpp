#pragma once
#include "kernels/layer_norm/call.hpp"

namespace attest::kernels::layer_norm {

// Computes step by step, each rounded to the format of its stage, sums one by one from the left: the mean, the
// differences, their squares, the variance, its root, the normalised row, the affine one. It is the plainest way to
// keep a policy.
void explicit_layer_norm(const attest_layer_norm& call, const Contract& contract);
Contract explicit_contract(const Policy& policy);

}  // namespace attest::kernels::layer_norm
