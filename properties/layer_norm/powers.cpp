// Powers of two: significands stay as they are.
//
// scaled: f(2^k x, 4^k epsilon) = f(x, epsilon) where nothing under- or overflows: numbers of 2^-10 to 2^15, or 0,
// statistics and all later stages in f32 or f64, a reciprocal root made of a root and a division, which 4^k leaves as
// it is, and a normal r gamma where the form makes that first.
// params-scaled: f(x, 2^k gamma, 2^k beta) = 2^k f(x, gamma, beta) where gamma, beta and out are normal numbers, and so
// are r gamma and its products with x and the mean where the form makes these first.
#include "core/rng.hpp"
#include "properties/layer_norm/laws.hpp"
#include "properties/layer_norm/preconditions.hpp"

namespace attest::properties::layer_norm {
namespace {

bool wide_arithmetic(const Contract& contract) {
  for (const Stage stage : {Stage::statistics, Stage::normalise, Stage::affine})
    if (precision(contract.policy[stage]) < precision(Format::f32)) return false;
  return true;
}

Reason powers_not_applicable(const Problem& p, const Contract& contract) {
  if (const Reason none = no_elements(p)) return none;
  if (!is_deterministic(contract)) return "bits are not claimed to repeat";
  if (!wide_arithmetic(contract)) return "a stage is narrower than f32";
  if (contract.arithmetic.flushes()) return "subnormals may become zero";
  return std::nullopt;
}

Reason scaled_not_applicable(const Problem& p, const Contract& contract) {
  if (contract.arithmetic.rsqrt_rel || contract.arithmetic.rsqrt_ulp > 0.5)
    return "the reciprocal root is no root and a division";
  if (!(p.epsilon == 0 || (p.epsilon > 1e-20 && p.epsilon < 1e6))) return "epsilon is not in the middle of the range";
  return powers_not_applicable(p, contract);
}

bool in_the_middle(double x) { return x == 0 || (std::fabs(x) >= 0x1p-10 && std::fabs(x) <= 0x1p15); }

// k in -8..8, not 0; of f16, whose range is short, -2..2.
int exponent_of(const Problem& p) {
  const int reach = has_short_range(p.dtype) ? 2 : 8;
  const int k = 1 + static_cast<int>(below(mix(p.seed ^ 0x504f), static_cast<std::uint64_t>(reach)));
  return p.seed & 1 ? -k : k;
}

Verdict check_scaled(const Trial& trial) {
  int k = exponent_of(trial.problem);
  double largest = 0, least = 1;
  for (Index row = 0; row < trial.problem.rows; ++row)
    for (Index column = 0; column < trial.problem.hidden; ++column) {
      const double x = trial.inputs.x.at(row, column);
      const double r = trial.inputs.residual.present() ? trial.inputs.residual.at(row, column) : 0;
      if (!in_the_middle(x) || !in_the_middle(r) || !in_the_middle(x + r))
        return Verdict::skip("numbers not in the middle");
      largest = std::max({largest, std::fabs(x), std::fabs(r), std::fabs(x + r)});
      for (const double number : {x, r})
        if (number != 0) least = std::min(least, std::fabs(number));
    }
  if (largest * std::ldexp(1.0, k) > largest_finite(trial.problem.dtype) / 2) k = -k;
  if (least * std::ldexp(1.0, k) < 4 * smallest_normal(trial.problem.dtype))
    return Verdict::skip("numbers not in the middle");
  Inputs other = trial.inputs.clone();
  const double factor = std::ldexp(1.0, k);
  change(other.x, [&](Index, Index, double x) { return x * factor; });
  change(other.residual, [&](Index, Index, double x) { return x * factor; });
  other.epsilon *= factor * factor;
  const Tensor out = trial.asked(other);
  Open open(trial, trial.inputs), other_open(trial, other);
  return compare_exactly(
      out, trial.problem.rows, trial.problem.hidden,
      [&](Index row, Index column) -> std::optional<double> {
        if (open(row, column) || other_open(row, column)) return std::nullopt;
        for (Open* const call : {&open, &other_open})
          if (call->scale_may_be_subnormal(row, column, false)) return std::nullopt;
        return trial.out.at(row, column);
      },
      "x is 2^k times what it was and epsilon 4^k times: out must stay");
}

Reason params_scaled_not_applicable(const Problem& p, const Contract& contract) {
  if (p.gamma == attest::layer_norm::Weights::none) return "no gamma";
  if (contract.gamma_offset != 0) return "gamma has an offset";
  return powers_not_applicable(p, contract);
}

Verdict check_params_scaled(const Trial& trial) {
  const double factor = std::ldexp(1.0, trial.problem.seed & 1 ? -1 : 1);
  const Format params = trial.problem.param_format(), format = trial.problem.dtype;
  const auto middle = [&](double w) {
    return w == 0 || (std::fabs(w) >= std::max(0x1p-12, 8 * smallest_normal(params)) && std::fabs(w) <= 0x1p12);
  };
  for (Index column = 0; column < trial.problem.hidden; ++column) {
    if (!middle(trial.inputs.gamma.at(column)) ||
        (trial.inputs.beta.present() && !middle(trial.inputs.beta.at(column))))
      return Verdict::skip("numbers not in the middle");
  }
  Inputs other = trial.inputs.clone();
  change_weights(other.gamma, [&](Index, double g) { return g * factor; });
  change_weights(other.beta, [&](Index, double b) { return b * factor; });
  const Tensor out = trial.asked(other);
  Open open(trial, trial.inputs), other_open(trial, other);
  const double least = 8 * std::max(smallest_normal(format), smallest_normal(trial[Stage::output]));
  const double most = std::min(largest_finite(format), largest_finite(trial[Stage::output])) / 4;
  return compare_exactly(
      out, trial.problem.rows, trial.problem.hidden,
      [&](Index row, Index column) -> std::optional<double> {
        const double was = std::fabs(trial.out.at(row, column));
        if (!(was >= least && was <= most) || open(row, column) || other_open(row, column)) return std::nullopt;
        for (Open* const call : {&open, &other_open})
          if (call->scale_may_be_subnormal(row, column, true)) return std::nullopt;
        return trial.out.at(row, column) * factor;
      },
      "gamma and beta are twice or half what they were, and so must out be");
}

}  // namespace

Law scaled() {
  return {"scaled",
          "f(2^k x, 4^k epsilon) = f(x, epsilon)",
          "a power of two leaves significands as they are",
          Kind::exact,
          scaled_not_applicable,
          check_scaled};
}

Law params_scaled() {
  return {"params-scaled",
          "f(x, 2^k gamma, 2^k beta) = 2^k f(x, gamma, beta)",
          "a power of two leaves significands as they are",
          Kind::exact,
          params_scaled_not_applicable,
          check_params_scaled};
}

}  // namespace attest::properties::layer_norm
