#include "subjects/builtin_emulated.hpp"

#include "core/inputs.hpp"
#include "core/layer_norm/call.hpp"
#include "core/layer_norm/inputs.hpp"
#include "core/mha/call.hpp"
#include "core/rng.hpp"
#include "kernels/emulated/contracts.hpp"
#include "kernels/emulated/emulator.hpp"
#include "kernels/emulated/steered.hpp"
#include "kernels/layer_norm/emulated/draw.hpp"
#include "kernels/mha/emulated.hpp"

namespace attest {

namespace {

void copy(const Tensor& from, const attest_tensor& to) {
  if (!from.present()) return;
  const auto n = from.shape();
  const auto extent = [&](std::size_t axis) { return n.size() > axis ? n[axis] : 1; };
  for (Index a = 0; a < n[0]; ++a)
    for (Index b = 0; b < extent(1); ++b)
      for (Index c = 0; c < extent(2); ++c)
        for (Index d = 0; d < extent(3); ++d) store(to, a, b, c, d, from.at(a, b, c, d));
}

// ---- attention ------------------------------------------------------------------------------------------------------

void answer(const Problem& problem, const Contract& contract, const emulator::Variant& variant, const Call& call) {
  const auto& asked = call.as<attest_attention>();
  Tensor out = make_out(problem), lse = make_lse(problem);
  emulator::run(materialise(problem), contract, variant, out, lse);
  copy(out, asked.out);
  copy(lse, asked.lse);
}

EmulatedKernel kernel_of(Contract contract, const Policy& policy, std::uint64_t number) {
  const bool tight = (mix(mix(number)) & 1) != 0;
  contract.policy = policy;  // a variant may change it
  return {contract, [contract, number, tight](const Problem& problem) -> EmulatedCallOf<Contract> {
            const emulator::Variant variant = emulator::draw_variant(contract, problem, number);
            return {tight ? emulator::tightened(contract, variant) : contract,
                    [=](const Call& call) { answer(problem, contract, variant, call); }};
          }};
}

Contract drawn_contract(const Policy& policy, std::uint64_t number) {
  return emulator::draw_contract(policy, static_cast<int>(below(mix(number), emulator::contract_variants)));
}

// ---- layer_norm -----------------------------------------------------------------------------------------------------

void answer(const layer_norm::Problem& problem, const layer_norm::Contract& contract,
            const emulator::layer_norm::Scheme& scheme, const Call& call) {
  const auto& asked = call.as<attest_layer_norm>();
  Tensor out = make_out(problem), sum_out = make_sum_out(problem);
  emulator::layer_norm::run(materialise(problem), contract, scheme, out, sum_out);
  copy(out, asked.out);
  copy(sum_out, asked.sum_out);
}

// ---- mha ------------------------------------------------------------------------------------------------------------

constexpr std::uint64_t heads_stream = 0x68656164;  // keeps the heads' contract apart from the block's

mha::Contract drawn_block(const mha::Policy& policy, std::uint64_t number) {
  mha::Contract contract = contract_for(policy);
  contract.attention = drawn_contract(policy.attention, extend(number, heads_stream));
  contract.attention.policy = policy.attention;
  contract.attention.softcap_before_bias = true;  // a block has no softcap
  std::uint64_t key = mix(number);
  const auto pick = [&](std::uint64_t n) { return below(key = mix(key), n); };
  if (pick(2) == 0) {  // any ways, one at least
    const std::uint64_t ways = 1 + pick(7);
    for (std::size_t way = 0; way < mha::projected_count; ++way) contract.projections[way] = (ways >> way & 1) != 0;
    const std::uint64_t heads = 1 + pick(3);
    contract.heads_rounded = (heads & 1) != 0;
    contract.heads_unrounded = (heads & 2) != 0;
  }
  constexpr mha::Chain chains[] = {{40, 0, 1}, {0, 4, 1}, {0, 2, 4}, {0, 16, 1}};
  if (pick(3) == 0) contract.gemm_chain = chains[pick(std::size(chains))];
  contract.drops_b_k = pick(6) == 0;
  return contract;
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

EmulatedLayerNorm emulated_kernel(const layer_norm::Policy& policy, std::uint64_t number) {
  using emulator::layer_norm::Order;
  layer_norm::Contract contract = emulator::layer_norm::draw_contract(number);
  contract.policy = policy;
  return {contract, [contract, number](const layer_norm::Problem& problem) -> EmulatedCallOf<layer_norm::Contract> {
            const bool rms = problem.norm == layer_norm::Norm::rms;
            emulator::layer_norm::Scheme scheme =
                emulator::layer_norm::draw_scheme(contract, problem.hidden, rms, mix(number));
            if (scheme.order > Order::shuffled) scheme.order = static_cast<Order>(mix(scheme.seed) % 3);
            return {contract, [=](const Call& call) { answer(problem, contract, scheme, call); }};
          }};
}

EmulatedBlock emulated_kernel(const mha::Policy& policy, std::uint64_t number) {
  const mha::Contract contract = drawn_block(policy, number);
  return {contract, [contract, number](const mha::Problem& problem) -> EmulatedCallOf<mha::Contract> {
            emulator::BlockVariant variant = emulator::draw_block_variant(contract, problem, mix(number));
            for (emulator::Sums* sums : {&variant.in, &variant.out})  // none that looks at the numbers
              if (sums->order == emulator::SumOrder::greedy)
                sums->order = static_cast<emulator::SumOrder>(mix(sums->seed) % 5);
            return {contract, [=](const Call& call) {
                      emulator::run(mha::from_plugin(call.as<attest_mha>()), contract, variant);
                    }};
          }};
}

bool emulated_kernel_returns(const Contract& contract, const Problem& problem, double out) {
  Tensor element = make_out(problem);
  element.set(0, 0, 0, 0, out);
  return emulator::could_return(contract, problem, materialise(problem), element);
}

}  // namespace attest
