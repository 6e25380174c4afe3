// shared-mean: the elements of a row subtract one mean, and its variance is off by the square of the mean's error. Each
// element by itself may be as far off as any mean may be; all of them together must agree on one.
#include <algorithm>

#include "core/index.hpp"
#include "properties/layer_norm/laws.hpp"
#include "properties/layer_norm/preconditions.hpp"

namespace attest::properties::layer_norm {
namespace {

using attest::layer_norm::Norm;
using attest::layer_norm::Variance;

Reason shared_mean_not_applicable(const Problem& p, const Contract& contract) {
  if (const Reason none = no_elements(p)) return none;
  if (p.norm == Norm::rms) return "RMSNorm subtracts no mean";
  if (contract.arithmetic.variance != Variance::two_pass) return "the variance is not that of two passes";
  if (p.hidden < 3) return "fewer than three columns";
  return std::nullopt;
}

Verdict check_shared_mean(const Trial& trial) {
  oracle::layer_norm::LayerNormOracle oracle(trial.contract, trial.problem, trial.inputs);
  // A few rows, spread evenly: what is wrong with a mean or a root is so in most.
  constexpr Index most_rows = 8, most_numbers = 4096;
  const Index rows = std::clamp<Index>(most_numbers / trial.problem.hidden, 1, most_rows);
  for (const Index row : spread(std::min(rows, trial.problem.rows), trial.problem.rows))
    if (auto evidence = oracle.no_shared_mean(row, trial.out)) return Verdict::fail(std::move(*evidence));
  return Verdict::pass();
}

}  // namespace

Law shared_mean() {
  return {"shared-mean",
          "some |delta| <= dm leaves all elements of a row in [lo, hi](delta)",
          "one mean explains all elements of a row",
          Kind::bound,
          shared_mean_not_applicable,
          check_shared_mean,
          false};
}

}  // namespace attest::properties::layer_norm
