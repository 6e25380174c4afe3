// Rows and columns in which beta alone is left.
//
// gamma-zero: a gamma of 0 makes out = beta, whatever the row. Flushing, a narrower affine format, and a constant row
// without epsilon, in which 0 meets infinity, are no defects. Catches gamma and beta of other columns, and epsilon left
// out of the root.
//
// constant-row: a row of one number is its own mean, so that every normalised value is 0. Exact where the computed mean
// is that number: welford and shifted, whose differences are 0; two passes if the sum and its quotient are exact.
// Catches statistics that miss elements or count others.
#include "oracle/layer_norm/statistics.hpp"
#include "properties/layer_norm/laws.hpp"
#include "properties/layer_norm/preconditions.hpp"

namespace attest::properties::layer_norm {
namespace {

using attest::layer_norm::Merge;
using attest::layer_norm::Norm;
using attest::layer_norm::NormForm;
using attest::layer_norm::Variance;
using attest::layer_norm::Weights;

Reason beta_not_left(const Problem& p, const Contract& contract) {
  if (const Reason none = no_elements(p)) return none;
  if (contract.arithmetic.flushes()) return "subnormals may become zero";
  if (!affine_holds_params(p, contract)) return "gamma and beta are rounded";
  if (!epsilon_counts(p, contract)) return "epsilon does not count";
  return std::nullopt;
}

Reason gamma_zero_not_applicable(const Problem& p, const Contract& contract) {
  if (p.gamma == Weights::none) return "no gamma";
  return beta_not_left(p, contract);
}

Verdict beta_is_left(const Trial& trial, const Inputs& inputs, std::string note) {
  const Tensor out = trial.asked(inputs);
  Open open(trial, inputs);
  return compare_exactly(
      out, trial.problem.rows, trial.problem.hidden,
      [&](Index row, Index column) -> std::optional<double> {
        if (open(row, column)) return std::nullopt;
        return stored_beta(trial, inputs, column);
      },
      std::move(note));
}

Verdict check_gamma_zero(const Trial& trial) {
  Inputs zero = trial.inputs.clone();
  change_weights(zero.gamma, [&](Index, double) { return -trial.contract.gamma_offset; });
  return beta_is_left(trial, zero, "gamma is 0, and beta is all that is left");
}

Reason constant_row_not_applicable(const Problem& p, const Contract& contract) {
  if (const Reason reason = beta_not_left(p, contract)) return reason;
  const auto& how = contract.arithmetic;
  if (p.norm == Norm::rms) return "RMSNorm subtracts no mean";
  if (how.form != NormForm::centred && how.form != NormForm::weighted_scale) return "the mean is not subtracted from x";
  if (how.variance == Variance::one_pass) return "the variance of a constant row is not 0";
  if (how.merge == Merge::weighted) return "a weighted mean of equal means is not theirs";
  if (!statistics_hold_source(contract)) return "statistics round what is normalised";
  if (oracle::loses(contract.policy[Stage::normalise], contract.policy[Stage::statistics]))
    return "the mean is rounded again";
  return std::nullopt;
}

// Tells whether a sum of n numbers x is exact in any order, and its mean x.
bool mean_is_exact(const Trial& trial, double x) {
  const double n = static_cast<double>(trial.problem.hidden), numbers[] = {x};
  if (!oracle::is_power_of_two(n)) return x == 0;
  const Format format = trial[Stage::statistics];
  return n * std::fabs(x) <= std::ldexp(oracle::layer_norm::common_grid(numbers), precision(format)) || x == 0;
}

Verdict check_constant_row(const Trial& trial) {
  Inputs constant = trial.inputs.clone();
  std::vector<double> values;
  for (Index row = 0; row < trial.problem.rows; ++row) values.push_back(trial.inputs.x.at(row, 0));
  const auto variance = trial.contract.arithmetic.variance;
  const bool by_mean =
      variance == Variance::two_pass || variance == Variance::two_pass_corrected;  // others see differences of 0
  for (double& x : values) {
    if (!by_mean || mean_is_exact(trial, x)) continue;
    x = std::trunc(std::fmod(x, 4.0));  // a small integer of the same row instead
    if (!mean_is_exact(trial, x)) return Verdict::skip("no mean of the row is exact");
  }
  change(constant.x, [&](Index row, Index, double) { return values[static_cast<std::size_t>(row)]; });
  change(constant.residual, [](Index, Index, double) { return 0; });
  return beta_is_left(trial, constant, "every element of the row is the same, and beta is all that is left");
}

}  // namespace

Law gamma_zero() {
  return {"gamma-zero", "f(x, gamma = 0, beta) = beta", "a factor of 0 leaves beta, whatever the row",
          Kind::exact,  gamma_zero_not_applicable,      check_gamma_zero};
}

Law constant_row() {
  return {"constant-row", "f(c, c, ..., c) = beta",    "a row of one number is its own mean",
          Kind::exact,    constant_row_not_applicable, check_constant_row};
}

}  // namespace attest::properties::layer_norm
