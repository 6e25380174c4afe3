// Sums that are exact in any order, because all numbers are multiples of one grid and their magnitudes add up to no
// more than its 2^p-fold: then two passes over 2^j elements have one result.
//
// shifted: f(x + c) = f(x) where x + c, both sums and both means are exact.
// channels-permuted: f of permuted columns is f, permuted, where the sums of x and of (x - m)^2, and the mean, are
// exact.
// The rows are small integers, drawn from the problem's seed. Catches statistics that miss elements by their position,
// and cancellation.
#include "core/rng.hpp"
#include "properties/layer_norm/laws.hpp"
#include "properties/layer_norm/preconditions.hpp"

namespace attest::properties::layer_norm {
namespace {

using attest::layer_norm::Norm;
using attest::layer_norm::NormForm;
using attest::layer_norm::Variance;

Reason exact_sums_not_applicable(const Problem& p, const Contract& contract) {
  if (const Reason none = no_elements(p)) return none;
  const auto& how = contract.arithmetic;
  if (!is_deterministic(contract)) return "bits are not claimed to repeat";
  if (p.norm == Norm::rms) return "RMSNorm subtracts no mean";
  if (how.variance != Variance::two_pass && how.variance != Variance::two_pass_corrected)
    return "the variance is not made in two passes";
  if (how.form != NormForm::centred && how.form != NormForm::weighted_scale) return "the mean is not subtracted from x";
  if (how.flushes()) return "subnormals may become zero";
  if (!oracle::is_power_of_two(static_cast<double>(p.hidden))) return "the row's length is no power of two";
  if (p.hidden > 1024 || precision(contract.policy[Stage::statistics]) < precision(Format::f32) ||
      oracle::loses(contract.policy[Stage::normalise], contract.policy[Stage::statistics]))
    return "sums of small integers are not exact";
  return std::nullopt;
}

// Integers in -8..8 whose sum over the row is a multiple of its length, so that the mean is an integer, too.
Inputs with_integers(const Trial& trial) {
  Inputs other = trial.inputs.clone();
  const Index n = trial.problem.hidden;
  for (Index row = 0; row < trial.problem.rows; ++row) {
    Index sum = 0;
    for (Index column = 0; column < n; ++column) {
      const std::uint64_t key = extend(extend(mix(trial.problem.seed ^ 0x696e), static_cast<std::uint64_t>(row)),
                                       static_cast<std::uint64_t>(column));
      Index x = static_cast<Index>(below(key, 9)) - 4;
      // Towards a sum of 0, from wherever it stands.
      if (sum > 4 && x > 0) x = -x;
      if (sum < -4 && x < 0) x = -x;
      if (column == n - 1) x = -sum;
      sum += x;
      other.x.set(row, column, 0, 0, static_cast<double>(x));
    }
  }
  change(other.residual, [](Index, Index, double) { return 0; });
  return other;
}

Verdict check_shifted(const Trial& trial) {
  const Inputs base = with_integers(trial);
  Inputs other = base.clone();
  const double c = static_cast<double>(1 + below(mix(trial.problem.seed), 16)) * (trial.problem.seed & 1 ? -1 : 1);
  change(other.x, [&](Index, Index, double x) { return x + c; });
  const Tensor out = trial.asked(base), moved = trial.asked(other);
  Open open(trial, base);
  return compare_exactly(
      moved, trial.problem.rows, trial.problem.hidden,
      [&](Index row, Index column) -> std::optional<double> {
        if (open(row, column)) return std::nullopt;
        return out.at(row, column);
      },
      "every element is larger by one number, and out must stay");
}

Verdict check_permuted(const Trial& trial) {
  const Inputs base = with_integers(trial);
  const Index n = trial.problem.hidden;
  // An odd factor permutes the residues of a power of two.
  const Index factor = 2 * static_cast<Index>(below(mix(trial.problem.seed ^ 5), static_cast<std::uint64_t>(n))) + 1;
  const auto to = [&](Index column) { return (column * factor + 1) % n; };
  Inputs other = base.clone();
  change(other.x, [&](Index row, Index column, double) { return base.x.at(row, to(column)); });
  change_weights(other.gamma, [&](Index column, double) { return base.gamma.at(to(column)); });
  change_weights(other.beta, [&](Index column, double) { return base.beta.at(to(column)); });
  const Tensor out = trial.asked(base), permuted = trial.asked(other);
  Open open(trial, other);
  return compare_exactly(
      permuted, trial.problem.rows, n,
      [&](Index row, Index column) -> std::optional<double> {
        if (open(row, column)) return std::nullopt;
        return out.at(row, to(column));
      },
      "columns are permuted, and so must out be");
}

}  // namespace

Law shifted() {
  return {"shifted",   "f(x + c) = f(x)",         "where sums are exact, a number added to all changes nothing",
          Kind::exact, exact_sums_not_applicable, check_shifted};
}

Law channels_permuted() {
  return {"channels-permuted",
          "f(x P, gamma P, beta P) = f(x, gamma, beta) P",
          "where sums are exact, columns may change places",
          Kind::exact,
          exact_sums_not_applicable,
          check_permuted};
}

}  // namespace attest::properties::layer_norm
