// The same call, and calls that differ in what a row must not see.
//
// repeated: the same call gives the same numbers (`deterministic`).
// other-rows: a row is unchanged when the others hold other values (`deterministic`).
// row-alone: a row asked alone is the same as among others (`batch_invariant: bitwise`).
// residual-swapped: f(x, r) = f(r, x), since x + r is rounded once (`deterministic`).
// residual-zero: with a residual of zeros the result is right for the problem without one: a bound, since it may take
// another path.
#include "core/rng.hpp"
#include "properties/layer_norm/laws.hpp"
#include "properties/layer_norm/preconditions.hpp"

namespace attest::properties::layer_norm {
namespace {

using attest::layer_norm::Residual;

Reason repeated_not_applicable(const Problem& p, const Contract& contract) {
  if (p.rows == 0) return "no output elements";
  if (!is_deterministic(contract)) return "bits are not claimed to repeat";
  return std::nullopt;
}

Verdict compare_rows(const Trial& trial, const Tensor& out, Index first, Index rows, const char* note) {
  return compare_exactly(
      out, rows, trial.problem.hidden,
      [&](Index row, Index column) -> std::optional<double> { return trial.out.at(first + row, column); }, note);
}

Verdict check_repeated(const Trial& trial) {
  return compare_rows(trial, trial.asked(trial.inputs.clone()), 0, trial.problem.rows, "the same call again");
}

Reason other_rows_not_applicable(const Problem& p, const Contract& contract) {
  if (const Reason none = no_elements(p)) return none;
  if (p.rows < 2) return "one row";
  return repeated_not_applicable(p, contract);
}

Index some_row(const Problem& p) {
  return static_cast<Index>(below(mix(p.seed ^ 0x726f), static_cast<std::uint64_t>(p.rows)));
}

Verdict check_other_rows(const Trial& trial) {
  const Index kept = some_row(trial.problem);
  Inputs other = trial.inputs.clone();
  const auto changed = [&](Index row, Index column, double x) {
    if (row == kept) return x;
    return static_cast<double>((row * 7 + column * 3) % 11 - 5);
  };
  change(other.x, changed);
  change(other.residual, changed);
  const Tensor out = trial.asked(other);
  return compare_exactly(
      out, trial.problem.rows, trial.problem.hidden,
      [&](Index row, Index column) -> std::optional<double> {
        if (row != kept) return std::nullopt;
        return trial.out.at(row, column);
      },
      "the other rows hold other values");
}

Reason row_alone_not_applicable(const Problem& p, const Contract& contract) {
  if (const Reason none = no_elements(p)) return none;
  if (p.rows < 2) return "one row";
  if (contract.batch_invariant.value_or(BatchInvariance::bounded) != BatchInvariance::bitwise)
    return "rows are not claimed to be independent";
  return std::nullopt;
}

Verdict check_row_alone(const Trial& trial) {
  const Index row = some_row(trial.problem);
  Problem alone = trial.problem;
  alone.rows = 1;
  alone.rows0 += row;
  alone.judged = 0;
  alone.edits.clear();
  Inputs inputs = materialise(alone);
  change(inputs.x, [&](Index, Index column, double) { return trial.inputs.x.at(row, column); });
  change(inputs.residual, [&](Index, Index column, double) { return trial.inputs.residual.at(row, column); });
  change_weights(inputs.gamma, [&](Index column, double) { return trial.inputs.gamma.at(column); });
  change_weights(inputs.beta, [&](Index column, double) { return trial.inputs.beta.at(column); });
  return compare_rows(trial, trial.ask(alone, inputs), row, 1, "the row is asked alone");
}

Reason residual_swapped_not_applicable(const Problem& p, const Contract& contract) {
  if (const Reason none = no_elements(p)) return none;
  if (p.residual == Residual::none) return "no residual";
  return repeated_not_applicable(p, contract);
}

Verdict check_residual_swapped(const Trial& trial) {
  Inputs other = trial.inputs.clone();
  change(other.x, [&](Index row, Index column, double) { return trial.inputs.residual.at(row, column); });
  change(other.residual, [&](Index row, Index column, double) { return trial.inputs.x.at(row, column); });
  return compare_rows(trial, trial.asked(other), 0, trial.problem.rows, "x and residual have changed places");
}

Reason residual_zero_not_applicable(const Problem& p, const Contract&) {
  if (const Reason none = no_elements(p)) return none;
  if (p.residual == Residual::none) return "no residual";
  return std::nullopt;
}

Verdict check_residual_zero(const Trial& trial) {
  Inputs other = trial.inputs.clone();
  change(other.residual, [](Index, Index, double) { return 0; });
  const Tensor out = trial.asked(other);
  Problem without = trial.problem;
  without.residual = Residual::none;
  without.sum_out = false;
  Inputs plain = other.clone();
  plain.residual = Tensor();
  return oracle::layer_norm::LayerNormOracle(trial.contract, without, plain).judge(out, {});
}

}  // namespace

Law repeated() {
  return {"repeated",  "f(x) = f(x)",           "the same call gives the same numbers",
          Kind::exact, repeated_not_applicable, check_repeated};
}
Law other_rows() {
  return {"other-rows",
          "f(x)[i] = f(x')[i] where x[i] = x'[i]",
          "a row depends on no other",
          Kind::exact,
          other_rows_not_applicable,
          check_other_rows};
}
Law row_alone() {
  return {"row-alone", "f(x)[i] = f(x[i])",      "a row alone is what it is among others",
          Kind::exact, row_alone_not_applicable, check_row_alone};
}
Law residual_swapped() {
  return {"residual-swapped",
          "f(x, r) = f(r, x)",
          "a sum of two is rounded once",
          Kind::exact,
          residual_swapped_not_applicable,
          check_residual_swapped};
}
Law residual_zero() {
  return {"residual-zero",
          "RN(lo) <= f(x, 0) <= RN(hi) of x alone",
          "a residual of zeros is none",
          Kind::bound,
          residual_zero_not_applicable,
          check_residual_zero};
}

}  // namespace attest::properties::layer_norm
