#pragma once
#include <cstdint>
#include <functional>
#include <tuple>

#include "core/call.hpp"
#include "core/contract.hpp"
#include "core/layer_norm/contract.hpp"
#include "core/layer_norm/problem.hpp"
#include "core/mha/contract.hpp"
#include "core/mha/problem.hpp"
#include "core/problem.hpp"

namespace attest {

// A kernel in emulated arithmetic on one problem: its contract for that, and a function that answers that problem's
// call.
template <class Contract>
struct EmulatedCallOf {
  Contract contract;
  std::function<void(const Call&)> run;
};

// A kernel in emulated arithmetic. `on` promises no more than `contract`.
template <class Problem, class Contract>
struct EmulatedKernelOf {
  Contract contract;
  std::function<EmulatedCallOf<Contract>(const Problem&)> on;
};
using EmulatedKernel = EmulatedKernelOf<Problem, Contract>;
using EmulatedLayerNorm = EmulatedKernelOf<layer_norm::Problem, layer_norm::Contract>;
using EmulatedBlock = EmulatedKernelOf<mha::Problem, mha::Contract>;

// An operation that has emulated kernels, by its own types.
template <class OwnProblem, class OwnPolicy, class OwnContract>
struct EmulatedOp {
  using Problem = OwnProblem;
  using Policy = OwnPolicy;
  using Contract = OwnContract;
};
using EmulatedOps = std::tuple<EmulatedOp<Problem, Policy, Contract>,
                               EmulatedOp<layer_norm::Problem, layer_norm::Policy, layer_norm::Contract>,
                               EmulatedOp<mha::Problem, mha::Policy, mha::Contract>>;

// One of many kernels that compute in `policy`, drawn from `number`. Kernels of attention differ in the order of sums,
// tiles, splits, placement of the scale, FMA, errors of exp and of division, and promises beside the policy; half of
// them promise no more than they use.
EmulatedKernel emulated_kernel(const Policy& policy, std::uint64_t number);
// The same, drawn from those whose accumulators are tensor cores.
EmulatedKernel emulated_kernel_with(const Mma& mma, const Policy& policy, std::uint64_t number);
// Kernels of layer_norm differ in the order and shape of sums, ways to the variance, merges, FMA, and errors of the
// reciprocal root up to the end that the contract permits. None has an order that depends on the numbers that it adds.
EmulatedLayerNorm emulated_kernel(const layer_norm::Policy& policy, std::uint64_t number);
// Blocks differ as attention does in their heads; in the format of projections and heads, and in the order and chains
// of their sums.
EmulatedBlock emulated_kernel(const mha::Policy& policy, std::uint64_t number);

// Tells whether a kernel is found that keeps `contract` and returns `out` to the bit (kernels/emulated/steered.hpp),
// for a problem of one element of out. False says nothing.
bool emulated_kernel_returns(const Contract& contract, const Problem& problem, double out);

}  // namespace attest
