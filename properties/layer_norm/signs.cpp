// Signs: rounding to nearest knows none, and no order may depend on them where bits repeat.
//
// negated: f(-x, gamma, -beta) = -f(x, gamma, beta). negated-gamma: f(-x, -gamma, beta) = f(x, gamma, beta).
// Catches rounding to one side, clamps, and kernels that take |x|. Truncating sums (kappa) keep them too, if towards
// zero; they are not asked.
#include "properties/layer_norm/laws.hpp"
#include "properties/layer_norm/preconditions.hpp"

namespace attest::properties::layer_norm {
namespace {

using attest::layer_norm::Weights;

Reason negated_not_applicable(const Problem& p, const Contract& contract) {
  if (const Reason none = no_elements(p)) return none;
  if (!is_deterministic(contract)) return "bits are not claimed to repeat";
  if (!rounds_to_nearest(contract)) return "sums may round to one side";
  return std::nullopt;
}

Reason negated_gamma_not_applicable(const Problem& p, const Contract& contract) {
  if (p.gamma == Weights::none) return "no gamma";
  if (contract.gamma_offset != 0) return "gamma has an offset";
  return negated_not_applicable(p, contract);
}

double minus(double x) { return -x; }

Verdict compare_with_base(const Trial& trial, const Inputs& other, double sign, const char* note) {
  const Tensor out = trial.asked(other);
  Open open(trial, trial.inputs);
  return compare_exactly(
      out, trial.problem.rows, trial.problem.hidden,
      [&](Index row, Index column) -> std::optional<double> {
        if (open(row, column)) return std::nullopt;
        return sign * trial.out.at(row, column);
      },
      note);
}

Inputs with_minus_x(const Trial& trial) {
  Inputs other = trial.inputs.clone();
  change(other.x, [](Index, Index, double x) { return minus(x); });
  change(other.residual, [](Index, Index, double x) { return minus(x); });
  return other;
}

Verdict check_negated(const Trial& trial) {
  Inputs other = with_minus_x(trial);
  change_weights(other.beta, [](Index, double b) { return minus(b); });
  return compare_with_base(trial, other, -1, "x and beta are negated, and so must out be");
}

Verdict check_negated_gamma(const Trial& trial) {
  Inputs other = with_minus_x(trial);
  change_weights(other.gamma, [](Index, double g) { return minus(g); });
  return compare_with_base(trial, other, 1, "x and gamma are negated, and out must stay");
}

}  // namespace

Law negated() {
  return {"negated",
          "f(-x, gamma, -beta) = -f(x, gamma, beta)",
          "nothing is rounded to one side",
          Kind::exact,
          negated_not_applicable,
          check_negated};
}

Law negated_gamma() {
  return {"negated-gamma",
          "f(-x, -gamma, beta) = f(x, gamma, beta)",
          "nothing is rounded to one side",
          Kind::exact,
          negated_gamma_not_applicable,
          check_negated_gamma};
}

}  // namespace attest::properties::layer_norm
