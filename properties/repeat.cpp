// repeat: f(x) = f(x), bit by bit, when the same call is made again at once.
//
// For subjects that claim `deterministic`. Catches reductions without an order (races) and results that take in
// uninitialised memory. Other thread counts are the law `threads`.
#include <algorithm>
#include <span>
#include <vector>

#include "properties/compare.hpp"
#include "properties/preconditions.hpp"
#include "properties/property.hpp"
#include "properties/transform.hpp"
#include "properties/trial.hpp"

namespace attest::properties {
namespace {

// A race that is lost once in hundreds of calls: of cheap problems one in eight, by its seed, is asked so often.
constexpr std::size_t usual_calls = 2, many_calls = 256, calls_at_once = 32;
constexpr Index most_cheap_work = Index{1} << 12, most_cheap_rows = Index{1} << 8;

std::size_t calls_for(const Problem& p) {
  const bool cheap = p.multiply_adds() <= most_cheap_work && p.b * p.hq * (p.lq + p.lk) <= most_cheap_rows;
  return cheap && below(draw(p, 161), 8) == 0 ? many_calls : usual_calls;
}

Verdict check_repeat(Trial& trial) {
  const Result& base = trial.base();
  const std::vector<Request> again(calls_at_once, Request{&trial.inputs(), &trial.problem()});
  Counts counts;
  for (std::size_t left = calls_for(trial.problem()); left > 0;) {
    const std::size_t now = std::min(left, calls_at_once);
    for (const Result& result : trial.run_many(std::span(again).first(now)))
      if (auto evidence = difference(base, result, Equality::bits, "the same call again", counts))
        return Verdict::fail(std::move(*evidence), counts);
    left -= now;
  }
  return Verdict::pass(counts);
}

}  // namespace

Property repeat() {
  return {"repeat",
          "f(x) = f(x) bit by bit",
          "the same call again gives the same bits, twice or 256 times, if `deterministic` is claimed",
          Kind::exact,
          needs_deterministic,
          check_repeat,
          Asks::base_plan};
}

}  // namespace attest::properties
