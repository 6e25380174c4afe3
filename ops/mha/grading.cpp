#include "ops/grading.hpp"

#include "ops/attention/grading.hpp"
#include "ops/mha/parts.hpp"

namespace attest::ops::of_mha {
namespace {

using attest::mha::Projected;

constexpr Index most_paired = Index{1} << 20, most_emulated = Index{1} << 15;

bool separate(const Contract& contract) { return contract.projections[static_cast<std::size_t>(Projected::separate)]; }

class MhaGrading final : public Grading {
 public:
  [[nodiscard]] const Words& words() const noexcept override {
    static constexpr Words all{"x from N(0,1), dense weights, the default scale", "up to 2^20 multiply-adds",
                               "up to 2^15 multiply-adds", "the block stage by stage",
                               "what looks at that call alone: guards, policy bound"};
    return all;
  }
  [[nodiscard]] bool is_paired(const ops::Problem& problem) const override {
    return problem.as<Problem>().multiply_adds() <= most_paired;
  }
  [[nodiscard]] bool is_emulated(const ops::Problem& problem) const override {
    const Index size = problem.as<Problem>().multiply_adds();
    return size >= 1 && size <= most_emulated;
  }
  [[nodiscard]] ops::Problem plain(ops::Problem problem) const override {
    auto& p = problem.as<Problem>();
    p.weights = attest::mha::Weights::dense;
    p.amplitude = 1;
    p.scale.reset();
    return problem;
  }
  [[nodiscard]] ops::Policy framework_policy(Format type) const override {
    Policy policy = attest::mha::policy_from_text(name(type));
    policy.attention = of_attention::framework_policy(type);
    return policy;
  }
  [[nodiscard]] ops::Contract silent(const ops::Policy& policy) const override {
    return attest::mha::contract_for(policy.as<Policy>());
  }
  // Projections and heads that stay unrounded err less than rounded ones; those that are rounded twice, more.
  [[nodiscard]] bool no_wider(const ops::Contract& contract, const ops::Contract& least,
                              const ops::Contract& other) const override {
    const auto &a = contract.as<Contract>(), &b = least.as<Contract>(), &c = other.as<Contract>();
    return of_attention::no_wider(a.attention, b.attention, c.attention) &&
           (!separate(a) || separate(b) || separate(c));
  }
  [[nodiscard]] bool same_function(const ops::Contract&, const ops::Contract&) const override { return true; }
};

}  // namespace

const Grading& grading() {
  static const MhaGrading one;
  return one;
}

}  // namespace attest::ops::of_mha
