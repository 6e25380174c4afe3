#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "core/layer_norm/inputs.hpp"
#include "core/rng.hpp"
#include "ensemble/layer_norm.hpp"
#include "ensemble/redraws.hpp"
#include "generators/layer_norm/domain.hpp"
#include "kernels/layer_norm/emulated/draw.hpp"
#include "kernels/layer_norm/registry.hpp"
#include "tests/ensemble/cases.hpp"

namespace attest::testing {
namespace {

namespace em = emulator::layer_norm;
using layer_norm::AnyDepth;
using layer_norm::Contract;
using layer_norm::Inputs;
using layer_norm::Norm;
using layer_norm::Problem;
using layer_norm::Stage;

// No order that looks at the numbers.
em::Scheme draw_plain(const Contract& contract, const Problem& p, std::uint64_t seed) {
  em::Scheme s = em::draw_scheme(contract, p.hidden, p.norm == Norm::rms, seed);
  if (s.order > em::Order::shuffled) s.order = static_cast<em::Order>(mix(s.seed) % 3);
  return s;
}

struct Subject {
  std::string name;
  bool conforming;
  std::function<void(const Inputs&, Tensor& out, Tensor& sum_out)> run;
};

Problem people(Format storage, const std::function<std::uint64_t(std::uint64_t)>& pick) {
  constexpr Index widths[] = {64, 128, 512, 768, 1024, 4096};
  constexpr layer_norm::Values values[] = {layer_norm::Values::normal, layer_norm::Values::normal,
                                           layer_norm::Values::uniform, layer_norm::Values::outlier};
  Problem p;
  p.dtype = storage;
  p.hidden = widths[pick(6)];
  p.rows = std::max<Index>(1, 2048 / p.hidden);
  p.norm = pick(3) == 0 ? Norm::rms : Norm::layer;
  p.values = values[pick(4)];
  p.seed = pick(1u << 31);
  return p;
}

}  // namespace

void layer_norm_case(std::uint64_t seed, std::uint64_t n, Subjects which, const EnsembleTold& told) {
  std::uint64_t key = extend(mix(seed ^ 0x6c6e), n);
  const auto pick = [&](std::uint64_t sides) { return below(key = mix(key), sides); };
  constexpr const char* policies[] = {"f32", "f16", "bf16", "f64"};
  const kernels::layer_norm::KernelEntry* builtin = nullptr;
  Contract contract;
  switch (pick(3)) {
    case 0:
      builtin = &kernels::layer_norm::builtin_kernels()[pick(kernels::layer_norm::builtin_kernels().size())];
      contract = builtin->contract(layer_norm::policy_from_text(policies[pick(4)]));
      break;
    case 1:
      contract = layer_norm::contract_for(layer_norm::policy_from_text(policies[pick(4)]));
      break;
    default:
      contract = em::draw_contract(pick(1u << 30));
  }
  const Format storage = contract.policy[Stage::storage];
  Problem problem;
  if (pick(5) == 0) {
    problem = people(storage, pick);
  } else {
    layer_norm::Domain domain(layer_norm::Supports{}, {storage});
    domain.assume([](const Problem& p) { return p.elements() >= 1 && p.elements() <= 4096; });
    problem = draw_counted(domain, seed, n, 1).problem;
  }
  problem.threads = 1;
  if (ensemble::layer_norm::refusal(problem, contract)) return;
  problem.sum_out = false;

  std::vector<Subject> subjects;
  const auto emulate = [&](std::string name, bool conforming, const em::Scheme& scheme) {
    subjects.push_back({std::move(name), conforming, [contract, scheme](const Inputs& in, Tensor& out, Tensor& sum) {
                          em::run(in, contract, scheme, out, sum);
                        }});
  };
  const em::Scheme drawn = draw_plain(contract, problem, mix(key ^ 1));
  if (which != Subjects::faulty) {
    emulate("emulated, drawn", true, drawn);
    emulate("emulated, drawn again", true, draw_plain(contract, problem, mix(key ^ 2)));
    em::Scheme end = draw_plain(contract, problem, mix(key ^ 3));
    if (end.root != em::RootError::exact) end.root = pick(2) != 0 ? em::RootError::up : em::RootError::down;
    end.root_share = 1;
    emulate("emulated, at the contract's end", true, end);
    em::Scheme once = drawn;
    once.root = em::RootError::nearest;
    emulate("root rounded once", true, once);
    if (std::holds_alternative<AnyDepth>(contract.arithmetic.depth)) {
      em::Scheme chain;
      chain.root = em::RootError::nearest;
      emulate("one by one, root rounded once", true, chain);
      chain.root = em::RootError::exact;
      emulate("one by one", true, chain);
      chain.order = em::Order::backward;
      emulate("one by one, backward", true, chain);
    }
    if (builtin != nullptr)
      subjects.push_back({"builtin:ln-" + std::string(builtin->name), true,
                          [builtin, contract](const Inputs& in, Tensor& out, Tensor& sum) {
                            builtin->run(in.call(out, sum), contract);
                          }});
  }
  if (which != Subjects::conforming) {
    const auto defect = [&](const char* name, em::Defect of) {
      em::Scheme scheme = drawn;
      scheme.defect = of;
      emulate(name, false, scheme);
    };
    if (precision(contract.policy[Stage::statistics]) >= 24) {
      defect("statistics in f16", em::Defect::statistics_f16);
      defect("statistics in bf16", em::Defect::statistics_bf16);
    }
    defect("root off by 1e-3", em::Defect::root_off);
  }

  for (const Subject& subject : subjects) {
    ensemble::Redraws redraws(problem);
    const auto draw = [&](int m) {
      const auto& [its, inputs] = redraws(m);
      Tensor out = make_out(its), none;
      subject.run(inputs, out, none);
      return ensemble::layer_norm::sample(its, contract, inputs, out);
    };
    told({subject.name, subject.conforming, to_text(problem), layer_norm::to_text(contract.policy),
          ensemble::ask(draw)});
  }
}

}  // namespace attest::testing
