#pragma once
#include <cmath>

#include "oracle/numbers.hpp"
#include "properties/layer_norm/law.hpp"

namespace attest::properties::layer_norm {

using Reason = std::optional<std::string>;

inline Reason no_elements(const Problem& p) {
  if (p.rows == 0) return "no output elements";
  if (broadcasts(p)) return "an input broadcasts";
  return std::nullopt;
}
inline bool is_deterministic(const Contract& contract) {
  return contract.deterministic.value_or(Deterministic::no) != Deterministic::no;
}
inline bool rounds_to_nearest(const Contract& contract) { return contract.arithmetic.kappa == 1; }
// Tells whether statistics hold every number that is normalised.
inline bool statistics_hold_source(const Contract& contract) {
  return !oracle::loses(contract.policy[Stage::statistics], contract.policy[Stage::storage]) &&
         !oracle::loses(contract.policy[Stage::statistics], contract.policy[Stage::sum]);
}
// Tells whether gamma and beta come through unchanged where they are used.
inline bool affine_holds_params(const Problem& p, const Contract& contract) {
  return !oracle::loses(contract.policy[Stage::affine], p.param_format());
}
// Tells whether epsilon keeps the variance off 0 in the statistics format.
inline bool epsilon_counts(const Problem& p, const Contract& contract) {
  return round_to(contract.policy[Stage::statistics], p.epsilon) > smallest_normal(contract.policy[Stage::statistics]);
}
// Returns the element of out where beta alone is left.
inline double stored_beta(const Trial& trial, const Inputs& inputs, Index column) {
  const double beta = inputs.beta.present() ? inputs.beta.at(column) : 0;
  return round_to(trial.problem.dtype, round_to(trial[Stage::output], round_to(trial[Stage::affine], beta)));
}

}  // namespace attest::properties::layer_norm
