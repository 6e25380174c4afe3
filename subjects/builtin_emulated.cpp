#include "subjects/builtin_emulated.hpp"

#include "core/rng.hpp"
#include "kernels/emulated/contracts.hpp"
#include "kernels/emulated/emulator.hpp"

namespace attest {

EmulatedKernel emulated_kernel(const Policy& policy, std::uint64_t number) {
  const std::uint64_t key = mix(number);
  Contract contract = emulator::draw_contract(policy, static_cast<int>(below(key, emulator::contract_variants)));
  contract.policy = policy;  // a variant may change it
  const bool tight = (mix(key) & 1) != 0;
  return {contract, [contract, number, tight](const Problem& problem, const Inputs& inputs, Tensor& out, Tensor& lse) {
            const emulator::Variant variant = emulator::draw_variant(contract, problem, number);
            emulator::run(inputs, contract, variant, out, lse);
            return tight ? emulator::tightened(contract, variant) : contract;
          }};
}

}  // namespace attest
