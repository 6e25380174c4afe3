// repeat: f(x) = f(x), bit by bit, when the same call is made again at once.
//
// For subjects that claim `deterministic`; where they claim it for any thread count ("threads"), also with another
// one. Catches reductions without an order (races) and results that take in uninitialised memory.
#include "properties/compare.hpp"
#include "properties/preconditions.hpp"
#include "properties/property.hpp"
#include "properties/trial.hpp"

namespace attest::properties {
namespace {

Verdict check(Trial& trial) {
  const Result& base = trial.base();
  const Problem& p = trial.problem();
  std::vector<Call> calls{{&trial.inputs(), &p}, {&trial.inputs(), &p}};
  Inputs other_threads;
  const bool any_threads = trial.contract().deterministic == Deterministic::threads;
  if (any_threads) {
    other_threads = trial.inputs().clone();
    other_threads.threads = p.threads == 1 ? 2 : 1;
    calls[1].inputs = &other_threads;
  }
  Counts counts;
  const std::vector<Result> again = trial.run_many(calls);
  for (std::size_t n = 0; n < again.size(); ++n)
    if (auto evidence = difference(
            base, again[n], Equality::bits,
            any_threads && n == 1 ? "the same call with another thread count" : "the same call again", counts))
      return Verdict::fail(std::move(*evidence), counts);
  return Verdict::pass(counts);
}

}  // namespace

Property repeat() {
  return {
      "repeat",    "f(x) = f(x) bit by bit", "the same call again gives the same bits, if `deterministic` is claimed",
      Kind::exact, needs_deterministic,      check};
}

}  // namespace attest::properties
