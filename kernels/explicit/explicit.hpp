#pragma once
#include "attest/plugin.h"
#include "core/contract.hpp"

namespace attest::kernels {

// Attention stage by stage: all scores of a block of query rows, all their weights, then the output. Every stage is rounded
// to its format; weights are normalised before they are rounded. Memory: a few MiB a thread at any number of keys.
// Throws Error(usage) for tensors that are not of the policy's storage format.
void explicit_attention(const attest_attention& attention, const Contract& contract);

// What explicit_attention promises under a policy.
Contract explicit_contract(const Policy& policy);

}  // namespace attest::kernels
