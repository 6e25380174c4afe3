#include "properties/equal_scores.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "properties/transform.hpp"

namespace attest::properties {

// Returns why scores of 0 may not stay 0. 0 stays 0 through every stage if no factor that it meets is infinite in a
// format in which it may be held: sigma, sigma log2 e, c, 1/c and sigma/c.
std::optional<std::string> scores_cannot_vanish(const Problem& problem, const Contract& contract) {
  const double scale = std::fabs(problem.effective_scale()), cap = problem.softcap;
  if (cap > 0 && contract.arithmetic.tanh == TanhError::absolute) return "tanh may be off at 0";
  const double factor = std::max({scale, cap, cap > 0 ? 1 / cap : 0, cap > 0 ? scale / cap : 0});
  for (const Stage stage : {Stage::operand, Stage::scale, Stage::qk, Stage::score, Stage::softcap, Stage::softmax}) {
    const Format format = contract.policy[stage];
    if (!(4 * factor < overflow_threshold(format)) || (cap > 0 && cap < 4 * smallest_normal(format)))
      return "the scale or the softcap leaves a format";
  }
  return std::nullopt;
}

Inputs with_vanishing_scores(const Trial& trial) {
  Inputs inputs = trial.inputs().clone();
  inputs.q.fill(0);
  std::uint64_t bits = draw(trial.problem(), 131);
  for_each_stored(inputs.k, [&](Index b, Index h, Index j, Index c) {
    bits = mix(bits);
    inputs.k.set(b, h, j, c, bits & 1 ? 1 : -1);
  });
  const bool bias_masks = trial.contract().softcap_before_bias || !(inputs.softcap > 0);
  for_each_stored(inputs.bias, [&](Index b, Index h, Index i, Index j) {
    if (!bias_masks || inputs.bias.at(b, h, i, j) != -std::numeric_limits<double>::infinity())
      inputs.bias.set(b, h, i, j, 0);
  });
  return inputs;
}

}  // namespace attest::properties
