#pragma once
#include "core/contract.hpp"
#include "core/inputs.hpp"
#include "core/problem.hpp"

namespace attest::emulator {

// Tells whether a kernel is found that keeps `contract` and returns `out`, to the bit: the row at once, every operation
// rounded once and to nearest, and the weighted values added one after the other in an order chosen for it. Such an
// order is fixed for a kernel that has it written down. False proves nothing: only a result of a single element without
// lse is tried, in a limited number of orders, and none where the contract has sums that are not of single additions in
// f32.
bool could_return(const Contract& contract, const Problem& problem, const Inputs& inputs, const Tensor& out);

}  // namespace attest::emulator
