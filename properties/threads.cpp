// threads: the same call at 1, 2 and more threads gives the same bits, if the contract claims `deterministic: threads`;
// else results within the enclosure.
//
// The option `threads` of a call is an upper limit, which any subject may be given. Catches reductions whose order or
// number of parts follows the threads, and work that falls between them.
#include <array>

#include "properties/compare.hpp"
#include "properties/preconditions.hpp"
#include "properties/property.hpp"
#include "properties/transform.hpp"
#include "properties/trial.hpp"

namespace attest::properties {
namespace {

Reason threads_not_applicable(const Problem& p, const Contract&, const SubjectInfo&) {
  if (p.b * p.hq * p.lq * p.dv == 0) return "no output elements";
  return std::nullopt;
}

std::string note_of(Index threads) {
  return "the same call with " + std::to_string(threads) + (threads == 1 ? " thread" : " threads");
}

Verdict check_threads(Trial& trial) {
  const Problem& p = trial.problem();
  constexpr Index many[] = {3, 4, 5, 7, 8, 16};
  const std::array<Index, 3> threads{1, 2, many[below(draw(p, 111), std::size(many))]};
  std::array<Inputs, 3> inputs;
  std::array<Request, 3> calls{};
  for (std::size_t n = 0; n < threads.size(); ++n) {
    inputs[n] = trial.inputs().clone();
    inputs[n].threads = threads[n];
    calls[n] = {&inputs[n], &p};
  }
  const bool same_bits = trial.contract().deterministic == Deterministic::threads;
  const Result& base = trial.base();
  const std::vector<Result> results = trial.run_many(calls);
  Verdict verdict = Verdict::pass();
  for (std::size_t n = 0; n < threads.size(); ++n) {
    if (results[n].violation) return Verdict::fail(*results[n].violation, verdict.counts);
    if (same_bits) {
      if (auto evidence = difference(base, results[n], Equality::bits, note_of(threads[n]), verdict.counts))
        return Verdict::fail(std::move(*evidence), verdict.counts);
    } else {
      verdict = within_enclosures(trial, results[n].out, results[n].lse, note_of(threads[n]));
      if (verdict.kind == VerdictKind::fail) return verdict;
    }
  }
  return verdict;
}

}  // namespace

Property threads() {
  return {"threads",
          "f(x) at n threads = f(x) at m threads",
          "the thread count changes no bit if `deterministic: threads` is claimed, else nothing beyond rounding",
          Kind::exact,
          threads_not_applicable,
          check_threads};
}

}  // namespace attest::properties
