#pragma once
#include <optional>
#include <string>

#include "core/policy.hpp"
#include "engine/check.hpp"
#include "engine/corpus.hpp"
#include "engine/ops.hpp"
#include "engine/shrink/shrink.hpp"

namespace attest::engine {

// A case that failed.
struct Failure {
  const Problem& problem;
  const CaseOutcome& outcome;  // with a finding
  std::optional<std::uint64_t> seed, case_number;
};

// The subject that was asked, as the command line names it, under the policy that it gives; `peer`: the second of two
// subjects.
struct Asker {
  const std::string& subject;
  const std::optional<Policy>& policy;
  const SubjectInfo& info;
  const SubjectInfo* peer = nullptr;
};

// A failure as its own reproducer, without a call, not minimal. `better` (may be null): the latest problem that
// shrinking came to before it was given up, of a failure that shows without calls before it.
Entry as_it_was_seen(const Failure& failure, const Asker& asker, const ShrinkStep* better = nullptr);

// Turns a failure into a reproducer: shrinks it with the laws it needs, on the failure key it has, and computes the
// bucket of the minimal case. Flaky failures are not shrunk. `policy` is the one given on the command line. If two
// subjects are compared, the entry has the second one's version and contract; its name and file are for the caller to
// add.
Entry reproduce(const Failure& failure, Bench bench, const std::string& subject, const std::optional<Policy>& policy,
                const ShrinkLimits& limits, ShrinkBudget budget,
                const std::function<void(const ShrinkStep&)>& accepted);

// Tells whether one reproducer is simpler than another of the same bucket: fewer multiply-adds, then a shorter text.
bool simpler(const Entry& a, const Entry& b);

// The version of attest that writes entries.
std::string_view attest_version() noexcept;

}  // namespace attest::engine
