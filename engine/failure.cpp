#include "engine/failure.hpp"

#include <algorithm>
#include <functional>

#include "engine/bucket.hpp"
#include "engine/stream.hpp"
#include "properties/property.hpp"

namespace attest::engine {
namespace {

constexpr std::int64_t most_timeouts = 20;  // each costs its whole time limit

// A candidate counts if the laws that showed the failure show it again with the same key. A finding of a statistical tier
// may turn into one of the policy bound on the way, which is a proof, and then stays one.
class Attempt {
 public:
  Attempt(const CaseOutcome& outcome, Bench bench, const std::optional<Policy>& policy)
      : key_(outcome.key()), laws_(outcome.needed), bench_(bench), policy_(policy) {
    if (may_be_proven()) laws_.insert(laws_.begin(), law_named(policy_bound_name));
  }
  [[nodiscard]] const FailureKey& key() const { return key_; }

  Trialled operator()(const Problem& candidate) {
    const Contract contract = contract_for_problem(bench_.subject.info(), policy_, candidate);
    CaseOutcome outcome = check(candidate, contract, bench_, laws_);
    Trialled answer{{}, outcome.subject_calls};
    for (LawVerdict& law : outcome.laws) {
      if (!is_finding(law.verdict.kind)) continue;
      const FailureKey shown = key_of(properties::properties()[law.law].name, law.verdict);
      if (proves(shown)) {
        key_ = shown;
        laws_ = {law_named(policy_bound_name)};
      }
      if (shown == key_) answer.failure = std::move(law.verdict);
    }
    return answer;
  }

 private:
  [[nodiscard]] bool may_be_proven() const {
    return is_statistical(law_named(key_.property)) && key_.kind == VerdictKind::fail;
  }
  [[nodiscard]] bool proves(const FailureKey& shown) const {
    return may_be_proven() && shown.property == policy_bound_name && shown.kind == key_.kind && shown.what == key_.what;
  }

  FailureKey key_;
  std::vector<std::size_t> laws_;
  Bench bench_;
  const std::optional<Policy>& policy_;
};

}  // namespace

Entry reproduce(const Failure& failure, Bench bench, const std::string& subject, const std::optional<Policy>& policy,
                const ShrinkLimits& limits, ShrinkBudget budget,
                const std::function<void(const ShrinkStep&)>& accepted) {
  const Verdict& seen = failure.outcome.finding()->verdict;
  const SubjectInfo& info = bench.subject.info();
  Entry entry;
  entry.subject = portable_subject(subject);
  entry.subject_version = info.version;
  entry.attest_version = attest_version();
  entry.policy_given = policy.has_value();
  entry.original = to_text(portable_problem(failure.problem));
  entry.seed = failure.seed;
  entry.case_number = failure.case_number;
  entry.problem = failure.problem;
  Verdict verdict = seen;
  Attempt attempt(failure.outcome, bench, policy);
  if (seen.kind != VerdictKind::flaky) {
    if (seen.kind == VerdictKind::timeout) budget.calls = std::min(budget.calls, most_timeouts);
    Shrunk shrunk = shrink(failure.problem, seen, std::ref(attempt), limits, budget, accepted);
    entry.problem = std::move(shrunk.minimal);
    entry.shrink_calls = shrunk.calls;
    entry.minimal = shrunk.complete;
    entry.neighbours = std::move(shrunk.neighbours);
    verdict = std::move(shrunk.verdict);
  }
  const FailureKey& key = attempt.key();
  entry.property = key.property;
  for (const std::size_t law : failure.outcome.needed)
    if (const std::string_view name = properties::properties()[law].name; name != key.property && !is_statistical(law))
      entry.with.emplace_back(name);
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
