#include "engine/failure.hpp"

#include <algorithm>
#include <functional>
#include <utility>

#include "engine/attempt.hpp"
#include "engine/bucket.hpp"
#include "engine/instance.hpp"
#include "engine/processor.hpp"
#include "engine/restated.hpp"
#include "engine/stream.hpp"
#include "properties/property.hpp"

namespace attest::engine {
namespace {

constexpr std::int64_t most_timeouts = 20;  // each costs its whole time limit

std::vector<EarlierCall> earlier_calls(const std::vector<Asked>& calls) {
  std::vector<EarlierCall> named;
  for (const Asked& call : calls) {
    EarlierCall& last = named.emplace_back(EarlierCall{call.problem, {}});
    for (const std::size_t law : call.laws) last.laws.emplace_back(all_laws()[law].name);
  }
  return named;
}

constexpr std::string_view why_unrepeated = "repeats of the same calls did not show it again";
constexpr std::string_view why_not_fresh = "a fresh instance does not show it";

// Runs that tell a failure that always shows from one that does not; a time limit is waited for once.
int runs_of(VerdictKind kind) { return kind == VerdictKind::timeout ? 1 : kind == VerdictKind::crash ? 5 : 12; }
int runs_of_a_race(VerdictKind kind) { return ends_instance(kind) ? 6 : 20; }
constexpr std::int64_t calls_behind = 4;  // times the budget where each candidate takes calls before it
constexpr int most_tries = 12;            // on one candidate

// Makes the reproducer of a failure: the problem it was shrunk to, and the verdict on it.
class Reproducer {
 public:
  Reproducer(Entry& entry, Attempt& attempt, const ShrinkLimits& limits, const ShrinkBudget& budget,
             const std::function<void(const ShrinkStep&)>& accepted)
      : entry_(entry), attempt_(attempt), limits_(limits), left_(budget), accepted_(accepted) {}

  // Reproduces a failure that a fresh instance shows by itself, as a rule or now and then, or after the calls before
  // the case. Otherwise it becomes flaky.
  Verdict alone(const Verdict& seen, const std::vector<Asked>& before, std::string_view why) {
    const Problem original = entry_.problem;
    Rate rate = attempt_.rate(original, seen.kind == VerdictKind::timeout ? 1 : 2);
    if (rate.seen == 0 && attempt_.shows_behind(original, before)) return behind(seen);
    if (rate.seen < rate.runs) rate = attempt_.rate(original, runs_of_a_race(seen.kind));
    if (rate.seen == 0) return flaky_verdict(seen, std::string(why));
    if (rate.seen < rate.runs) return now_and_then(seen, rate);
    Verdict verdict = smaller(original, seen);
    rate = attempt_.rate(entry_.problem, runs(seen.kind));
    if (rate.seen == 0) {
      attempt_.always_fresh();  // the calls of other candidates brought it about
      verdict = smaller(original, seen);
      rate = attempt_.rate(entry_.problem, runs(seen.kind));
    }
    return rate.seen < rate.runs ? now_and_then(verdict, attempt_.rate(entry_.problem, runs_of_a_race(seen.kind)))
                                 : verdict;
  }

  // Reproduces one that shows after other calls, which are shrunk too: fewer, then the problem, then each of them.
  Verdict behind(const Verdict& seen) {
    if (!attempt_.shows_behind(entry_.problem, attempt_.after()))
      return flaky_verdict(seen, "the same calls before it did not show it again");
    if (!ends_instance(seen.kind)) left_.calls *= calls_behind;
    spend(attempt_.shorten(entry_.problem, half()));
    const bool fewest = entry_.minimal;
    Verdict verdict = smaller(entry_.problem, seen);
    const bool smallest = entry_.minimal;
    spend(attempt_.simplify(entry_.problem, verdict, limits_, left_));
    entry_.minimal = entry_.minimal && fewest && smallest;
    return verdict;
  }

  Verdict smaller(const Problem& problem, const Verdict& seen) {
    const auto told = [&](const ShrinkStep& step) {
      attempt_.accepted(step.best);
      if (accepted_) accepted_(step);
    };
    Shrunk shrunk = shrink(problem, seen, std::ref(attempt_), limits_, left_, told);
    entry_.problem = std::move(shrunk.minimal);
    entry_.neighbours = std::move(shrunk.neighbours);
    spend({shrunk.calls, shrunk.complete});
    return std::move(shrunk.verdict);
  }

 private:
  // The number of runs: one at the end of a campaign's time, for the failure was seen before.
  [[nodiscard]] int runs(VerdictKind kind) const {
    if (left_.stop && *left_.stop) return 1;
    return left_.seconds && kind == VerdictKind::error ? runs_of(VerdictKind::crash) : runs_of(kind);
  }
  [[nodiscard]] ShrinkBudget half() const {
    ShrinkBudget budget = left_;
    budget.calls /= 2;
    return budget;
  }
  void spend(const Attempt::Spent& spent) {
    entry_.shrink_calls += spent.calls;
    entry_.minimal = spent.complete;
    left_.calls -= std::min(left_.calls, spent.calls);
  }

  // A failure that does not always show is asked for several times, and the entry says how often it showed.
  Verdict now_and_then(const Verdict& seen, Rate rate) {
    const Problem before = entry_.problem;
    if (ends_instance(seen.kind)) {
      entry_.minimal = false;
      entry_.shown = Rate{std::max(rate.seen, 1), rate.runs};
      return seen;
    }
    if (rate.seen > 0) attempt_.retry(std::min(most_tries, 3 * rate.runs / rate.seen));
    Verdict verdict = smaller(before, seen);
    entry_.shown = attempt_.rate(entry_.problem, runs_of_a_race(seen.kind));
    if (entry_.shown->seen > 0) return verdict;
    entry_.problem = before;
    entry_.neighbours.clear();
    entry_.minimal = false;
    entry_.shown = Rate{std::max(rate.seen, 1), std::max(rate.runs, 1)};
    return seen;
  }

  Entry& entry_;
  Attempt& attempt_;
  const ShrinkLimits& limits_;
  ShrinkBudget left_;
  const std::function<void(const ShrinkStep&)>& accepted_;
};

// The outcome as it was before no repeat showed it again.
CaseOutcome as_seen(const CaseOutcome& outcome) {
  CaseOutcome seen = outcome;
  if (outcome.unrepeated) seen.laws[*seen.reported].verdict = *outcome.unrepeated;
  return seen;
}

// Begins an entry with its subjects and contracts.
Entry begun(const Failure& failure, const Asker& asker) {
  Entry entry;
  entry.subject = portable_subject(asker.subject);
  entry.subject_version = asker.info.version;
  entry.attest_version = attest_version();
  // The kernels of attest itself give the same bits on every processor.
  if (!entry.subject.starts_with("builtin:") && !entry.subject.starts_with("fault:")) entry.processor = processor();
  entry.policy_given = asker.policy.has_value();
  entry.problem = failure.outcome.blamed(failure.problem);
  entry.original = to_text(portable_problem(entry.problem));
  entry.seed = failure.seed;
  entry.case_number = failure.case_number;
  return entry;
}

// Fills in the result. `key` is the failure's, and `after` must be asked before it; the entry has its problem.
void conclude(Entry& entry, FailureKey key, const std::vector<Asked>& after, Verdict verdict,
              const CaseOutcome& outcome, const Asker& asker) {
  key.kind = verdict.kind;
  entry.property = key.property;
  for (const std::size_t law : outcome.culprit ? outcome.culprit->laws : outcome.needed)
    if (const std::string_view name = all_laws()[law].name; name != key.property) entry.with.emplace_back(name);
  entry.after = earlier_calls(after);
  entry.contract = contract_for_problem(asker.info, asker.policy, entry.problem);
  entry.as_probed = asker.info.declared != nullptr;
  if (asker.peer != nullptr) {
    entry.subject_b.emplace();
    entry.subject_b->version = asker.peer->version;
    entry.subject_b->contract = entry.problem.op().contract(*asker.peer, entry.problem);
  }
  entry.seen = verdict.kind;
  entry.reason = std::move(verdict.reason);
  entry.evidence = std::move(verdict.evidence);
  // A failure that never shows again has no minimal case to read predicates from.
  entry.bucket = entry.seen == VerdictKind::flaky
                     ? to_text(key) + ":" + entry.subject
                     : bucket_of(key, entry.subject, policy_of(entry.contract), entry.problem);
}

}  // namespace

Entry as_it_was_seen(const Failure& failure, const Asker& of, const ShrinkStep* better) {
  const Asker asker{of.subject, of.policy, info_judged_by(of.info, failure.outcome.as_probed), of.peer};
  Entry entry = begun(failure, asker);
  Verdict verdict = failure.outcome.finding()->verdict;
  if (better != nullptr && !failure.outcome.as_probed) {  // the declared contract may exclude it
    entry.problem = better->best;
    verdict = better->verdict;
    entry.shrink_calls = better->calls;
  }
  conclude(entry, as_seen(failure.outcome).key(), failure.outcome.after, std::move(verdict), failure.outcome, asker);
  return entry;
}

namespace {

// A problem that was shrunk by what probes showed may break the declared contract, which its first one kept: then it is
// a failure of that.
Entry shrunk_by_declared(Entry entry, const CaseOutcome& shown, Bench asked, const std::string& subject,
                         const ShrinkLimits& limits, const ShrinkBudget& budget,
                         const std::function<void(const ShrinkStep&)>& accepted) {
  const AsDeclared declared(asked, false);
  const Contract contract = entry.problem.op().contract(declared.bench().subject.info(), entry.problem);
  const CaseOutcome outcome = check_confirmed(entry.problem, contract, declared.bench(), shown.needed);
  if (!outcome.reported) return entry;
  Entry plain = reproduce({entry.problem, outcome, entry.seed, entry.case_number}, declared.bench(), subject,
                          std::nullopt, limits, budget, accepted);
  plain.original = entry.original;
  plain.shrink_calls += entry.shrink_calls;
  return plain;
}

}  // namespace

Entry reproduce(const Failure& failure, Bench asked, const std::string& subject, const std::optional<Policy>& policy,
                const ShrinkLimits& limits, ShrinkBudget budget,
                const std::function<void(const ShrinkStep&)>& accepted) {
  Instance unknown;
  if (!asked.instance) asked.instance = &unknown;
  const CaseOutcome outcome = as_seen(failure.outcome);
  const AsDeclared declared(asked, outcome.as_probed);
  const Bench bench = declared.bench();
  const Asker asker{subject, policy, bench.subject.info(), bench.compares ? &bench.peer->info() : nullptr};
  Entry entry = begun(failure, asker);
  const Verdict& seen = outcome.finding()->verdict;
  if (seen.kind == VerdictKind::timeout) budget.calls = std::min(budget.calls, most_timeouts);
  Attempt attempt(entry.problem, outcome, bench, policy);
  Reproducer reproducer(entry, attempt, limits, budget, accepted);
  Verdict verdict;
  if (!outcome.after.empty())
    verdict = reproducer.behind(seen);
  else if (outcome.culprit)
    verdict = reproducer.smaller(entry.problem, seen);
  else
    verdict = reproducer.alone(seen, outcome.before, failure.outcome.unrepeated ? why_unrepeated : why_not_fresh);
  conclude(entry, attempt.key(), attempt.after(), std::move(verdict), outcome, asker);
  return entry.as_probed ? shrunk_by_declared(std::move(entry), outcome, asked, subject, limits, budget, accepted)
                         : entry;
}

bool simpler(const Entry& a, const Entry& b) {
  const Index work_a = work_of(a.problem), work_b = work_of(b.problem);
  return work_a != work_b ? work_a < work_b : to_text(a.problem).size() < to_text(b.problem).size();
}

std::string_view attest_version() noexcept { return ATTEST_VERSION; }

}  // namespace attest::engine
