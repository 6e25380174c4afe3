#include "engine/attempt.hpp"

#include <algorithm>
#include <utility>

#include "engine/history.hpp"
#include "engine/sound.hpp"
#include "engine/stream.hpp"
#include "properties/property.hpp"

namespace attest::engine {

Attempt::Attempt(const Problem& problem, const CaseOutcome& outcome, Bench bench, const std::optional<Policy>& policy)
    : key_(outcome.key()),
      laws_(outcome.needed),
      after_(outcome.after),
      best_(problem),
      bench_(bench),
      policy_(policy) {
  if (outcome.culprit) poison_ = outcome.culprit->laws;
}

Contract Attempt::contract(const Problem& problem) const {
  return contract_for_problem(bench_.subject.info(), policy_, problem);
}

// Starts a fresh instance. An attempt that waits for time limits warms it up first.
bool Attempt::fresh() {
  sound_ = renew(bench_);
  if (sound_ && key_.kind == VerdictKind::timeout) warm_up(bench_, contract(best_));
  return sound_;
}

Rate Attempt::rate(const Problem& problem, int runs) {
  fresh();
  Rate rate{0, runs};
  for (int run = 0; run < runs; ++run) {
    if (always_fresh_) fresh();
    rate.seen += try_alone(problem).failure.has_value();
  }
  return rate;
}

bool Attempt::shows_behind(const Problem& problem, std::vector<Asked> calls) {
  if (calls.empty() || !try_behind(problem, calls).failure) return false;
  after_ = std::move(calls);
  return true;
}

// Tries a candidate. Calls that must come before may have to change along with it: a plan is reused for its own shape
// alone.
Trialled Attempt::operator()(const Problem& candidate) {
  if (after_.empty() && !poison_) {
    Trialled answer;
    for (int i = 0; i < tries_ && !answer.failure; ++i) {
      if (always_fresh_ || (ends_instance(key_.kind) && !sound_ && ailment(bench_, contract(candidate)))) fresh();
      Trialled once = try_alone(candidate);
      answer = {std::move(once.failure), answer.subject_calls + once.subject_calls};
    }
    return answer;
  }
  moved_ = after_;
  for (Asked& call : moved_) call.problem = moved_along(call.problem, best_, candidate);
  const bool both = !std::ranges::equal(moved_, after_, {}, &Asked::problem, &Asked::problem);
  Trialled answer = try_behind(candidate, moved_);
  if (answer.failure || !both) return answer;
  moved_ = after_;
  const std::int64_t calls = answer.subject_calls;
  answer = try_behind(candidate, moved_);
  answer.subject_calls += calls;
  return answer;
}

void Attempt::accepted(const Problem& best) {
  best_ = best;
  if (!moved_.empty()) after_ = moved_;
}

// A candidate counts if the laws that showed the failure show it again with the same key.
Trialled Attempt::try_alone(const Problem& candidate) {
  const Contract its = contract(candidate);
  const bool was_sound = std::exchange(sound_, false);
  std::int64_t calls = 0;
  const auto ask = [&] {
    CaseOutcome outcome = check(candidate, its, bench_, laws_);
    calls += outcome.subject_calls;
    return outcome;
  };
  const auto ill_after = [&](const CaseOutcome& outcome) {
    return outcome.reported && (outcome.finding()->died() || ailment(bench_, its));
  };
  CaseOutcome outcome = ask();
  if (ill_after(outcome)) {
    fresh();
    if (!was_sound) {  // it may have been so before
      outcome = ask();
      if (ill_after(outcome)) fresh();
    }
  }
  sound_ = outcome.reported.has_value();
  return {failure_of(outcome), calls};
}

std::optional<Verdict> Attempt::failure_of(CaseOutcome& outcome) {
  std::optional<Verdict> failure;
  for (LawVerdict& law : outcome.laws) {
    if (!is_finding(law.verdict.kind)) continue;
    if (key_of(all_laws()[law.law].name, law.verdict) == key_) failure = std::move(law.verdict);
  }
  return failure;
}

Trialled Attempt::try_behind(const Problem& candidate, const std::vector<Asked>& calls) {
  return poison_ ? try_poison(candidate, calls) : try_after(candidate, calls);
}

// A candidate counts if a fresh instance shows the failure after those calls.
Trialled Attempt::try_after(const Problem& candidate, const std::vector<Asked>& calls) {
  fresh();
  const Contract its = contract(candidate);
  repeat_calls(calls, bench_, its);
  CaseOutcome outcome = check(candidate, its, bench_, laws_);
  sound_ = false;
  return {failure_of(outcome), outcome.subject_calls + static_cast<std::int64_t>(calls.size())};
}

// A candidate counts if it poisons an instance in the same way: one that is sound, or a fresh one after those calls.
Trialled Attempt::try_poison(const Problem& candidate, const std::vector<Asked>& calls) {
  if (!sound_ || !calls.empty()) fresh();
  const Contract its = contract(candidate);
  std::vector<Asked> all = calls;
  all.push_back({candidate, *poison_});
  repeat_calls(all, bench_, its);
  const std::optional<Ailment> ill = ailment(bench_, its);
  sound_ = !ill;
  Trialled answer{{}, static_cast<std::int64_t>(all.size()) + 1};  // and the canary
  if (!ill) return answer;
  Verdict verdict = ill->poison();
  if (key_of(all_laws()[ill->law].name, verdict) == key_) answer.failure = std::move(verdict);
  return answer;
}

Attempt::Spent Attempt::shorten(const Problem& problem, const ShrinkBudget& budget) {
  const double start = budget.clock();
  Spent spent;
  const auto shows = [&](const std::vector<Asked>& calls) {
    const Trialled answer = try_behind(problem, calls);
    spent.calls += answer.subject_calls;
    return answer.failure.has_value();
  };
  const auto over = [&] {
    return (budget.stop && *budget.stop) || spent.calls >= budget.calls ||
           (budget.seconds && budget.clock() - start >= *budget.seconds);
  };
  after_ = fewest_calls(std::move(after_), shows, over);
  spent.complete = !over();
  return spent;
}

Attempt::Spent Attempt::simplify(const Problem& problem, const Verdict& verdict, const ShrinkLimits& limits,
                                 ShrinkBudget budget) {
  Spent spent;
  Verdict plain{verdict.kind, verdict.reason, {}, {}};  // its witness is an element of `problem`
  for (std::size_t i = 0; i < after_.size(); ++i) {
    std::vector<Asked> calls = after_;
    const auto attempt = [&](const Problem& candidate) {
      calls[i].problem = candidate;
      Trialled answer = try_behind(problem, calls);
      if (answer.failure) answer.failure = plain;
      return answer;
    };
    const Shrunk shrunk = shrink(after_[i].problem, plain, attempt, limits, budget);
    after_[i].problem = shrunk.minimal;
    spent.calls += shrunk.calls;
    spent.complete = spent.complete && shrunk.complete;
    budget.calls -= std::min(budget.calls, shrunk.calls);
  }
  return spent;
}

}  // namespace attest::engine
