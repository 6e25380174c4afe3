// repeat: f(x) = f(x), bit by bit, when the same call is made again at once.
//
// For subjects that claim `deterministic`. Catches reductions without an order (races) and results that take in
// uninitialised memory. Other thread counts are the law `threads`.
#include "properties/compare.hpp"
#include "properties/preconditions.hpp"
#include "properties/property.hpp"
#include "properties/trial.hpp"

namespace attest::properties {
namespace {

Verdict check_repeat(Trial& trial) {
  const Result& base = trial.base();
  const Call again{&trial.inputs(), &trial.problem()};
  const Call calls[] = {again, again};
  Counts counts;
  for (const Result& result : trial.run_many(calls))
    if (auto evidence = difference(base, result, Equality::bits, "the same call again", counts))
      return Verdict::fail(std::move(*evidence), counts);
  return Verdict::pass(counts);
}

}  // namespace

Property repeat() {
  return {
      "repeat",    "f(x) = f(x) bit by bit", "the same call again gives the same bits, if `deterministic` is claimed",
      Kind::exact, needs_deterministic,      check_repeat};
}

}  // namespace attest::properties
