#include "ops/grading.hpp"

#include <algorithm>

#include "ops/layer_norm/parts.hpp"

namespace attest::ops::of_layer_norm {
namespace {

using attest::layer_norm::Arithmetic;
using attest::layer_norm::Residual;
using attest::layer_norm::SumOf;
using attest::layer_norm::Values;
using attest::layer_norm::Variance;
using attest::layer_norm::Weights;

constexpr Index most_paired = Index{1} << 18, most_emulated = Index{1} << 13;

class LayerNormGrading final : public Grading {
 public:
  [[nodiscard]] const Words& words() const noexcept override {
    static constexpr Words all{"values from N(0,1), epsilon 1e-5, gamma and beta about 1 and 0", "up to 2^18 elements",
                               "up to 2^13 elements", "LayerNorm step by step",
                               "what looks at that call alone: guards, policy bound"};
    return all;
  }
  [[nodiscard]] bool is_paired(const ops::Problem& problem) const override {
    return problem.as<Problem>().elements() <= most_paired;
  }
  [[nodiscard]] bool is_emulated(const ops::Problem& problem) const override {
    const Index size = problem.as<Problem>().elements();
    return size >= 1 && size <= most_emulated;
  }
  [[nodiscard]] ops::Problem plain(ops::Problem problem) const override {
    auto& p = problem.as<Problem>();
    p.values = Values::normal;
    p.amplitude = 1;
    p.offset = 0;
    p.epsilon = 1e-5;
    if (p.residual != Residual::none) p.residual = Residual::like_x;
    for (Weights* weights : {&p.gamma, &p.beta})
      if (*weights != Weights::none) *weights = Weights::near;
    return problem;
  }
  // Statistics in f32, rounded once.
  [[nodiscard]] ops::Policy framework_policy(Format type) const override {
    return attest::layer_norm::policy_for(type);
  }
  [[nodiscard]] ops::Contract silent(const ops::Policy& policy) const override {
    return attest::layer_norm::contract_for(policy.as<Policy>());
  }
  [[nodiscard]] bool no_wider(const ops::Contract& contract, const ops::Contract& least,
                              const ops::Contract& other) const override {
    const Arithmetic &a = contract.as<Contract>().arithmetic, &b = least.as<Contract>().arithmetic,
                     &c = other.as<Contract>().arithmetic;
    const auto either = [&](auto holds) { return holds(a) || !(holds(b) && holds(c)); };
    return a.kappa <= std::max(b.kappa, c.kappa) && either([](const Arithmetic& x) { return !x.flushes(); }) &&
           either([](const Arithmetic& x) { return x.variance != Variance::one_pass; }) &&
           either([](const Arithmetic& x) { return !x.norm_rounded; }) &&
           either([](const Arithmetic& x) { return x.sum_of == SumOf::rounded; }) &&
           a.rsqrt_rel.value_or(0) <= std::max(b.rsqrt_rel.value_or(0), c.rsqrt_rel.value_or(0)) &&
           (a.rsqrt_rel || a.rsqrt_ulp <= std::max(b.rsqrt_ulp, c.rsqrt_ulp));
  }
  [[nodiscard]] bool same_function(const ops::Contract& a, const ops::Contract& b) const override {
    return a.as<Contract>().gamma_offset == b.as<Contract>().gamma_offset;
  }
};

}  // namespace

const Grading& grading() {
  static const LayerNormGrading one;
  return one;
}

}  // namespace attest::ops::of_layer_norm
