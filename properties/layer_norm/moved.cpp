// The laws of sums.cpp where sums are not exact: the result of moved numbers lies in their own intervals.
//
// shifted-bound: f(x + c), c as large as leaves most of x: a loss to an offset shows.
// channels-permuted-bound: columns are turned round, and the one farthest from the mean becomes the last: a kernel that
// never sees some columns, or takes another's weight, shows.
#include <cmath>

#include "core/directed.hpp"
#include "core/rng.hpp"
#include "properties/layer_norm/laws.hpp"
#include "properties/layer_norm/preconditions.hpp"

namespace attest::properties::layer_norm {
namespace {

using attest::layer_norm::Norm;

Reason shifted_bound_not_applicable(const Problem& p, const Contract&) {
  if (const Reason none = no_elements(p)) return none;
  if (p.norm == Norm::rms) return "RMSNorm subtracts no mean";
  return std::nullopt;
}

Reason permuted_bound_not_applicable(const Problem& p, const Contract&) {
  if (const Reason none = no_elements(p)) return none;
  if (p.hidden < 2) return "one column";
  return std::nullopt;
}

Verdict in_its_intervals(const Trial& trial, const Inputs& inputs) {
  const Tensor out = trial.asked(inputs);
  return oracle::layer_norm::LayerNormOracle(trial.contract, trial.problem, inputs).judge(out, {});
}

// Returns a power of two by which all of a row may move: 2 to 128 times its largest number, and no larger than half the
// format's.
double shift_of(const Trial& trial, Index row) {
  double largest = 0;
  for (Index column = 0; column < trial.problem.hidden; ++column)
    largest = std::max(largest, std::fabs(trial.inputs.x.at(row, column)));
  const std::uint64_t key = extend(mix(trial.problem.seed ^ 0x7368), static_cast<std::uint64_t>(row));
  if (!(largest > 0) || !std::isfinite(largest)) return 1;
  const int away = std::ilogb(largest) + 1 + static_cast<int>(below(key, 7));
  const int most = std::ilogb(largest_finite(trial.problem.dtype)) - 1;
  return std::ldexp(key >> 40 & 1 ? -1 : 1, std::min(away, most));
}

Verdict check_shifted_bound(const Trial& trial) {
  Inputs other = trial.inputs.clone();
  std::vector<double> shifts;
  for (Index row = 0; row < trial.problem.rows; ++row) shifts.push_back(shift_of(trial, row));
  change(other.x, [&](Index row, Index, double x) { return x + shifts[static_cast<std::size_t>(row)]; });
  change(other.residual, [](Index, Index, double) { return 0; });
  return in_its_intervals(trial, other);
}

Verdict check_permuted_bound(const Trial& trial) {
  const Index n = trial.problem.hidden;
  double mean = 0;
  for (Index column = 0; column < n; ++column) mean += trial.inputs.x.at(0, column) / static_cast<double>(n);
  Index farthest = 0;
  const auto distance = [&](Index column) { return std::fabs(trial.inputs.x.at(0, column) - mean); };
  for (Index column = 1; column < n; ++column)
    if (distance(column) > distance(farthest)) farthest = column;
  // The columns from the one behind the farthest on, round to itself: that of the first row.
  const auto from = [&](Index column) { return (farthest + 1 + column) % n; };
  Inputs other = trial.inputs.clone();
  change(other.x, [&](Index row, Index column, double) { return trial.inputs.x.at(row, from(column)); });
  change(other.residual, [&](Index row, Index column, double) { return trial.inputs.residual.at(row, from(column)); });
  change_weights(other.gamma, [&](Index column, double) { return trial.inputs.gamma.at(from(column)); });
  change_weights(other.beta, [&](Index column, double) { return trial.inputs.beta.at(from(column)); });
  return in_its_intervals(trial, other);
}

}  // namespace

Law shifted_bound() {
  return {"shifted-bound",
          "RN(lo) <= f(x + c) <= RN(hi) of x + c",
          "a number added to all leaves each result in its interval",
          Kind::bound,
          shifted_bound_not_applicable,
          check_shifted_bound};
}

Law channels_permuted_bound() {
  return {"channels-permuted-bound",
          "RN(lo) <= f(x P, gamma P, beta P) <= RN(hi) of x P",
          "permuted columns leave each result in its interval",
          Kind::bound,
          permuted_bound_not_applicable,
          check_permuted_bound};
}

}  // namespace attest::properties::layer_norm
