#include "subjects/builtin_emulated.hpp"

#include "core/rng.hpp"
#include "kernels/emulated/contracts.hpp"
#include "kernels/emulated/emulator.hpp"
#include "kernels/emulated/steered.hpp"

namespace attest {

namespace {

EmulatedKernel kernel_of(Contract contract, const Policy& policy, std::uint64_t number) {
  const bool tight = (mix(mix(number)) & 1) != 0;
  contract.policy = policy;  // a variant may change it
  return {contract, [contract, number, tight](const Problem& problem, const Inputs& inputs, Tensor& out, Tensor& lse) {
            const emulator::Variant variant = emulator::draw_variant(contract, problem, number);
            emulator::run(inputs, contract, variant, out, lse);
            return tight ? emulator::tightened(contract, variant) : contract;
          }};
}

Contract drawn_contract(const Policy& policy, std::uint64_t number) {
  return emulator::draw_contract(policy, static_cast<int>(below(mix(number), emulator::contract_variants)));
}

}  // namespace

EmulatedKernel emulated_kernel(const Policy& policy, std::uint64_t number) {
  return kernel_of(drawn_contract(policy, number), policy, number);
}

EmulatedKernel emulated_kernel_with(const Mma& mma, const Policy& policy, std::uint64_t number) {
  Contract contract = drawn_contract(policy, number);
  contract.arithmetic.kappa = 1;
  contract.arithmetic.mma = mma;
  return kernel_of(std::move(contract), policy, number);
}

bool emulated_kernel_returns(const Contract& contract, const Problem& problem, const Inputs& inputs,
                             const Tensor& out) {
  return emulator::could_return(contract, problem, inputs, out);
}

}  // namespace attest
