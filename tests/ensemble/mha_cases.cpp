#include <utility>
#include <vector>

#include "core/mha/inputs.hpp"
#include "core/rng.hpp"
#include "ensemble/mha.hpp"
#include "ensemble/redraws.hpp"
#include "generators/mha/domain.hpp"
#include "kernels/mha/emulated.hpp"
#include "tests/ensemble/cases.hpp"
#include "tests/oracle/mha_draw.hpp"

namespace attest::testing {
namespace {

namespace em = emulator;
using mha::Contract;
using mha::Inputs;
using mha::Problem;

// No order that looks at the numbers.
em::BlockVariant draw_plain(const Contract& contract, const Problem& problem, std::uint64_t seed) {
  em::BlockVariant v = em::draw_block_variant(contract, problem, seed);
  for (em::Sums* sums : {&v.in, &v.out})
    if (sums->order == em::SumOrder::greedy) sums->order = static_cast<em::SumOrder>(mix(sums->seed) % 5);
  return v;
}

}  // namespace

void mha_case(std::uint64_t seed, std::uint64_t n, Subjects which, const EnsembleTold& told) {
  std::uint64_t key = extend(mix(seed ^ 0x6d68), n);
  const auto pick = [&](std::uint64_t sides) { return below(key = mix(key), sides); };
  const bool unit = pick(4) == 0;
  NamedBlockContract named = unit ? draw_unit_contract(pick(1u << 30)) : draw_block_contract(pick(1u << 30));
  constexpr const char* policies[] = {"f32", "f16", "bf16", "f64"};
  if (!unit && pick(2) != 0) named.policy = policies[pick(4)];
  const Contract contract = named.contract();
  mha::Domain domain(mha::Supports{}, {contract.attention.policy[Stage::storage]});
  domain.assume([](const Problem& p) { return p.multiply_adds() >= 1 && p.multiply_adds() <= (1 << 15); });
  Problem problem = draw_counted(domain, seed, n, 1).problem;
  problem.threads = 1;
  if (ensemble::mha::refusal(problem, contract)) return;

  struct Subject {
    std::string name;
    bool conforming;
    em::BlockVariant variant;
  };
  const em::BlockVariant drawn = draw_plain(contract, problem, mix(key ^ 1));
  std::vector<Subject> subjects;
  if (which != Subjects::faulty) {
    subjects.push_back({"emulated, drawn", true, drawn});
    subjects.push_back({"emulated, drawn again", true, draw_plain(contract, problem, mix(key ^ 2))});
    em::BlockVariant end = draw_plain(contract, problem, mix(key ^ 4));
    constexpr em::Error ends[] = {em::Error::up, em::Error::down, em::Error::in_turn, em::Error::by_call};
    end.attention.exp_error = ends[pick(4)];
    end.attention.div_error = pick(2) != 0 ? em::Error::up : em::Error::down;
    subjects.push_back({"emulated, at the contract's end", true, end});
  }
  if (which != Subjects::conforming) {
    const auto defect = [&](const char* name, em::BlockDefect of) {
      em::BlockVariant variant = drawn;
      variant.defect = of;
      subjects.push_back({name, false, variant});
    };
    if (!unit && precision(contract.gemm) >= 24) {
      defect("projections in 16 bits", em::BlockDefect::gemm_16);
      defect("output projection in 16 bits", em::BlockDefect::gemm_out_16);
    }
    if (precision(contract.attention.policy[Stage::softmax]) >= 24)
      defect("softmax in 16 bits", em::BlockDefect::softmax_16);
  }
  for (const Subject& subject : subjects) {
    ensemble::Redraws redraws(problem);
    const auto draw = [&](int m) {
      const auto& [its, inputs] = redraws(m);
      const Tensor out = make_out(its);
      em::run(inputs.call(out), contract, subject.variant);
      return ensemble::mha::sample(its, contract, inputs, out);
    };
    told({subject.name, subject.conforming, to_text(problem), named.policy + " " + named.numbers, ensemble::ask(draw)});
  }
}

}  // namespace attest::testing
