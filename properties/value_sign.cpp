// value-sign: f(-V) = -f(V), and the log-sum-exp stays.
//
// Exact, for subjects that claim `deterministic` and divide with half an ulp: no score depends on V, and rounding to
// nearest, truncation and flushing treat both signs alike, so that every number made of V changes its sign and nothing
// else. Catches clamps, conversions and initial values that favour a sign.
#include "properties/compare.hpp"
#include "properties/preconditions.hpp"
#include "properties/property.hpp"
#include "properties/transform.hpp"
#include "properties/trial.hpp"

namespace attest::properties {
namespace {

void negate(Tensor& tensor) {
  for_each_stored(tensor, [&](Index b, Index h, Index i, Index c) { tensor.set(b, h, i, c, -tensor.at(b, h, i, c)); });
}

Verdict check_value_sign(Trial& trial) {
  const Result& base = trial.base();
  Inputs inputs = trial.inputs().clone();
  negate(inputs.v);
  Result result = trial.run(inputs, trial.problem());
  negate(result.out);
  Counts counts;
  if (auto evidence = difference_with_keys(trial, base, result, "the negated result for the negated values", counts))
    return Verdict::fail(std::move(*evidence), counts);
  return held(counts);
}

}  // namespace

Property value_sign() {
  return {"value-sign",
          "f(q, k, -v) = -f(q, k, v)",
          "negated values give the negated result, if `deterministic` is claimed",
          Kind::exact,
          needs_rounded_division,
          check_value_sign,
          Asks::base_plan};
}

}  // namespace attest::properties
