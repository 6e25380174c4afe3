#include <utility>

#include "generators/mha/domain.hpp"
#include "ops/domain.hpp"
#include "ops/mha/parts.hpp"

namespace attest::ops::of_mha {
std::unique_ptr<Domain> domain(const Supports& supports, std::vector<Format> dtypes) {
  return std::make_unique<DomainOf<attest::mha::Domain>>("mha", supports, std::move(dtypes));
}

// The smallest first. A block that is wrong on one of them may be right on the next: with small integers, projections
// round nothing; with scores of 0 softmax rounds nothing; without biases none is left out. Large ones would not do: the
// bound of dense weights grows faster than what a block errs, and after every failure the canary is asked.
std::vector<ops::Problem> canaries(const Supports& supports, Format dtype) {
  using attest::mha::Biases;
  using attest::mha::Weights;
  struct Canary {
    Weights weights;
    Biases biases;
    Index tokens, heads, head_dim;
  };
  constexpr Canary small[] = {{Weights::dense, Biases::all, 2, 1, 8},
                              {Weights::integers, Biases::none, 2, 1, 8},
                              {Weights::uniform, Biases::none, 2, 1, 8},
                              {Weights::dense, Biases::all, 5, 2, 8},
                              {Weights::power_of_two, Biases::all, 5, 2, 8}};
  constexpr Canary larger[] = {{Weights::dense, Biases::all, 16, 4, 16}, {Weights::dense, Biases::all, 32, 4, 64}};
  std::vector<ops::Problem> taken;
  const auto add = [&](const Canary& canary) {
    Problem p;
    p.dtype = dtype;
    p.heads = p.kv_heads = canary.heads;
    p.head_dim = canary.head_dim;
    p.e = p.q_width();
    p.l = p.m = canary.tokens;
    p.self = true;
    p.weights = canary.weights;
    p.biases = canary.biases;
    p.seed = 0x63616E617279;
    Problem fitted = p;  // sizes, memory and biases as the subject takes them
    fit(p, fitted, supports);
    if (!attest::mha::declined(fitted, supports, {&dtype, 1})) taken.emplace_back(fitted);
  };
  for (const Canary& canary : small) add(canary);
  for (const Canary& canary : larger)
    if (taken.empty()) add(canary);
  return taken;
}

}  // namespace attest::ops::of_mha
