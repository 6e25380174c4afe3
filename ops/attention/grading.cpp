#include "ops/attention/grading.hpp"

#include <algorithm>

#include "ops/attention/parts.hpp"
#include "ops/grading.hpp"

namespace attest::ops::of_attention {
namespace {

constexpr Index most_paired = Index{1} << 20, most_paired_numbers = Index{1} << 22, most_emulated = Index{1} << 16;

// Tells whether every block is made of as many products as `least` says, and keeps as many bits.
bool keeps(const std::optional<Mma>& sums, const std::optional<Mma>& least) {
  return !sums || (least && sums->block >= least->block && sums->frac >= least->frac && sums->out == least->out);
}

class AttentionGrading final : public Grading {
 public:
  [[nodiscard]] const Words& words() const noexcept override {
    static constexpr Words all{"values from N(0,1), the default scale, no softcap, masks of -inf",
                               "up to 2^20 multiply-adds", "up to 2^16 multiply-adds", "explicit attention",
                               "what looks at that call alone: guards, result class, policy bound, lone-key"};
    return all;
  }
  [[nodiscard]] bool is_paired(const ops::Problem& problem) const override {
    const auto& p = problem.as<Problem>();
    const Index numbers = p.b * (p.hq * p.lq + p.hkv * p.lk) * (p.d + p.dv);  // the elements of q, k, v and out
    return p.multiply_adds() <= most_paired && numbers <= most_paired_numbers;
  }
  [[nodiscard]] bool is_emulated(const ops::Problem& problem) const override {
    const Index size = problem.as<Problem>().multiply_adds();
    return size >= 1 && size <= most_emulated;
  }
  [[nodiscard]] ops::Problem plain(ops::Problem problem) const override {
    auto& p = problem.as<Problem>();
    p.values = Values::normal;
    p.amplitude = 1;
    p.q_form = p.k_form = p.v_form = Form::drawn;
    p.scale.reset();
    p.softcap = 0;
    if (p.bias == Bias::lowest || p.bias == Bias::minus_1e4 || p.bias == Bias::large) p.bias = Bias::minus_inf;
    if (p.bias == Bias::empty_lowest) p.bias = Bias::empty_inf;
    return problem;
  }
  [[nodiscard]] ops::Policy framework_policy(Format type) const override {
    return of_attention::framework_policy(type);
  }
  [[nodiscard]] ops::Contract silent(const ops::Policy& policy) const override {
    return contract_for(policy.as<Policy>());
  }
  [[nodiscard]] bool no_wider(const ops::Contract& contract, const ops::Contract& least,
                              const ops::Contract& other) const override {
    return of_attention::no_wider(contract.as<Contract>(), least.as<Contract>(), other.as<Contract>());
  }
  [[nodiscard]] bool same_function(const ops::Contract& a, const ops::Contract& b) const override {
    return a.as<Contract>().softcap_before_bias == b.as<Contract>().softcap_before_bias;
  }
  [[nodiscard]] bool has_rare_sums(const ops::Contract& contract) const override {
    return contract.as<Contract>().arithmetic.mma.has_value();
  }
};

}  // namespace

attest::Policy framework_policy(Format type) {
  attest::Policy policy = policy_for(type);
  if (is_short(type))
    for (const Stage stage : {Stage::scale, Stage::score, Stage::softcap}) policy.set(stage, type);
  return policy;
}

bool no_wider(const attest::Contract& contract, const attest::Contract& least, const attest::Contract& other) {
  const Arithmetic &a = contract.arithmetic, &b = least.arithmetic, &c = other.arithmetic;
  const auto tanh_of = [&](const Arithmetic& x) { return x.tanh == a.tanh ? x.tanh_ulp : 0; };
  return a.kappa <= std::max(b.kappa, c.kappa) && (keeps(a.mma, b.mma) || keeps(a.mma, c.mma)) &&
         (!a.flush_to_zero || b.flush_to_zero || c.flush_to_zero) &&
         a.exp_rel.value_or(0) <= std::max(b.exp_rel.value_or(0), c.exp_rel.value_or(0)) &&
         (a.exp_rel || a.exp_ulp <= std::max(b.exp_ulp, c.exp_ulp)) && a.div_ulp <= std::max(b.div_ulp, c.div_ulp) &&
         a.tanh_ulp <= std::max(tanh_of(b), tanh_of(c)) &&
         contract.lazy_nats() <= std::max(least.lazy_nats(), other.lazy_nats());
}

const Grading& grading() {
  static const AttentionGrading one;
  return one;
}

}  // namespace attest::ops::of_attention
