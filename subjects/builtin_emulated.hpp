#pragma once
#include <cstdint>
#include <functional>

#include "core/contract.hpp"
#include "core/inputs.hpp"

namespace attest {

// A kernel in emulated arithmetic.
struct EmulatedKernel {
  Contract contract;
  // Writes out, and lse if present, and says what it promises for this problem: no more than `contract`.
  std::function<Contract(const Problem&, const Inputs&, Tensor& out, Tensor& lse)> run;
};

// One of many that compute in `policy`: order of sums, tiles, splits, placement of the scale, FMA, errors of exp and of
// division, and what the contract promises beside the policy, drawn from `number`. Half of them promise no more than they use.
EmulatedKernel emulated_kernel(const Policy& policy, std::uint64_t number);
// The same, of those whose accumulators are tensor cores.
EmulatedKernel emulated_kernel_with(const Mma& mma, const Policy& policy, std::uint64_t number);

// Whether a kernel is found that keeps `contract` and returns `out` to the bit (kernels/emulated/steered.hpp). False says nothing.
bool emulated_kernel_returns(const Contract& contract, const Problem& problem, const Inputs& inputs, const Tensor& out);

}  // namespace attest
