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

}  // namespace attest
