#include <utility>

#include "generators/mha/domain.hpp"
#include "ops/domain.hpp"
#include "ops/mha/parts.hpp"

namespace attest::ops::of_mha {
std::unique_ptr<Domain> domain(const Supports& supports, std::vector<Format> dtypes) {
  return std::make_unique<DomainOf<attest::mha::Domain>>("mha", supports, std::move(dtypes));
}

std::vector<ops::Problem> canaries(const Supports& supports, Format dtype) {
  struct Shape {
    Index tokens, heads, head_dim;
  };
  std::vector<ops::Problem> taken;
  for (const auto& [tokens, heads, head_dim] : {Shape{2, 1, 8}, {5, 2, 8}, {16, 4, 16}, {32, 4, 64}}) {
    Problem p;
    p.dtype = dtype;
    p.heads = p.kv_heads = heads;
    p.head_dim = head_dim;
    p.e = p.q_width();
    p.l = p.m = tokens;
    p.self = true;
    p.weights = attest::mha::Weights::dense;
    p.seed = 0x63616E617279;
    Problem fitted = p;  // memory and biases as the subject takes them
    fit(p, fitted, supports);
    if (!attest::mha::declined(fitted, supports, {&dtype, 1})) taken.emplace_back(fitted);
  }
  return taken;
}

}  // namespace attest::ops::of_mha
