#include "engine/failure.hpp"

#include <algorithm>

#include "engine/bucket.hpp"
#include "engine/stream.hpp"
#include "properties/property.hpp"

namespace attest::engine {
namespace {

constexpr std::int64_t most_timeouts = 20;  // each costs its whole time limit

// A candidate counts if the laws that showed the failure show it again with the same key.
Trialled attempt(const Problem& candidate, const FailureKey& key, Bench bench, const std::optional<Policy>& policy,
                 std::span<const std::size_t> laws) {
  const Contract contract = contract_for_problem(bench.subject.info(), policy, candidate);
  CaseOutcome outcome = check(candidate, contract, bench, laws);
  Trialled answer{{}, outcome.subject_calls};
  for (LawVerdict& law : outcome.laws)
    if (is_finding(law.verdict.kind) && key_of(properties::properties()[law.law].name, law.verdict) == key)
      answer.failure = std::move(law.verdict);
  return answer;
}

}  // namespace

Entry reproduce(const Failure& failure, Bench bench, const std::string& subject, const std::optional<Policy>& policy,
                const ShrinkLimits& limits, ShrinkBudget budget,
                const std::function<void(const ShrinkStep&)>& accepted) {
  const FailureKey key = failure.outcome.key();
  const Verdict& seen = failure.outcome.finding()->verdict;
  const SubjectInfo& info = bench.subject.info();
  Entry entry;
  entry.subject = portable_subject(subject);
  entry.subject_version = info.version;
  entry.attest_version = attest_version();
  entry.policy_given = policy.has_value();
  entry.property = key.property;
  for (const std::size_t law : failure.outcome.needed)
    if (const std::string name(properties::properties()[law].name); name != key.property) entry.with.push_back(name);
  entry.original = to_text(portable_problem(failure.problem));
  entry.seed = failure.seed;
  entry.case_number = failure.case_number;
  entry.problem = failure.problem;
  Verdict verdict = seen;
  if (seen.kind != VerdictKind::flaky) {
    if (seen.kind == VerdictKind::timeout) budget.calls = std::min(budget.calls, most_timeouts);
    const Try attempt_one = [&](const Problem& candidate) {
      return attempt(candidate, key, bench, policy, failure.outcome.needed);
    };
    Shrunk shrunk = shrink(failure.problem, seen, attempt_one, limits, budget, accepted);
    entry.problem = std::move(shrunk.minimal);
    entry.shrink_calls = shrunk.calls;
    entry.minimal = shrunk.complete;
    entry.neighbours = std::move(shrunk.neighbours);
    verdict = std::move(shrunk.verdict);
  }
  entry.contract = contract_for_problem(info, policy, entry.problem);
  entry.seen = verdict.kind;
  entry.reason = std::move(verdict.reason);
  entry.evidence = std::move(verdict.evidence);
  // What never shows again has no minimal case to read predicates from.
  entry.bucket = seen.kind == VerdictKind::flaky ? to_text(key) + ":" + entry.subject
                                                 : bucket_of(key, entry.subject, entry.contract.policy, entry.problem);
  return entry;
}

bool simpler(const Entry& a, const Entry& b) {
  const Index work_a = a.problem.multiply_adds(), work_b = b.problem.multiply_adds();
  return work_a != work_b ? work_a < work_b : to_text(a.problem).size() < to_text(b.problem).size();
}

std::string_view attest_version() noexcept { return ATTEST_VERSION; }

}  // namespace attest::engine
