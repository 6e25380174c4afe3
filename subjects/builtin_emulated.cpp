#include "subjects/builtin_emulated.hpp"

#include "core/rng.hpp"
#include "kernels/emulated/contracts.hpp"
#include "kernels/emulated/emulator.hpp"

namespace attest {

EmulatedKernel emulated_kernel(const Policy& policy, std::uint64_t number) {
  Contract contract =
      emulator::draw_contract(policy, static_cast<int>(below(mix(number), emulator::contract_variants)));
  contract.policy = policy;  // a variant may change it
  return {contract, [contract, number](const Problem& problem, const Inputs& inputs, Tensor& out, Tensor& lse) {
            emulator::run(inputs, contract, emulator::draw_variant(contract, problem, number), out, lse);
          }};
}

}  // namespace attest
