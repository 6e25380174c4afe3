#pragma once
#include "core/contract.hpp"

namespace attest::kernels {

// Returns the promises of all kernels here, as narrow as they are true: the policy, round-to-nearest accumulators, exp
// and division as exact as their formats allow, no lagging maximum, one split, no folded scale, no exp2, keys in
// ascending order, weights normalised after the sum, a sum of unrounded weights; zeros for empty rows, NaN that
// propagates, masked keys unread, and bits that depend neither on the batch nor on the threads. A kernel that departs
// from this says where.
Contract common_promise(const Policy& policy);

}  // namespace attest::kernels
