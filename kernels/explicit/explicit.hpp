#pragma once
#include "attest/plugin.h"
#include "core/contract.hpp"

namespace attest::kernels {

// Computes attention stage by stage: all scores of a block of query rows, all their weights, then the output. Every
// stage is rounded to its format; weights are normalised before they are rounded. Memory: a few MiB a thread at any
// number of keys. Throws Error(usage) for tensors that are not of the policy's storage format.
void explicit_attention(const attest_attention& attention, const Contract& contract);

// Computes the same but for the weights, which are exp(s - lse): a second exp in place of the division.
void explicit_lse_attention(const attest_attention& attention, const Contract& contract);

// Their promises under a policy.
Contract explicit_contract(const Policy& policy);
Contract explicit_lse_contract(const Policy& policy);

}  // namespace attest::kernels
