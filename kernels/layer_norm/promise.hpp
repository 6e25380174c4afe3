#pragma once
#include "kernels/layer_norm/call.hpp"

namespace attest::kernels::layer_norm {

// Returns the promises of all kernels here: the policy, sums that round to nearest, a root and a division, each to the
// nearest number; NaN that propagates, and bits that depend neither on the other rows nor on the threads. A kernel that
// departs from this says where.
Contract common_promise(const Policy& policy);

}  // namespace attest::kernels::layer_norm
