#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "core/policy.hpp"
#include "engine/check.hpp"
#include "engine/corpus.hpp"
#include "engine/ops.hpp"
#include "engine/shrink/shrink.hpp"

namespace attest::engine {

// Asks the candidates of one failure, each on an instance known to be sound: the canary (sound.hpp) is asked after one
// that fails, and before one that may end the instance. A fresh instance is started only where the canary fails, or
// where the failure lies in the calls before.
class Attempt {
 public:
  // `outcome` has a finding; all must outlive the attempt.
  Attempt(const Problem& problem, const CaseOutcome& outcome, Bench bench, const std::optional<Policy>& policy);

  // The key of the failure.
  [[nodiscard]] const FailureKey& key() const { return key_; }
  // The calls that a fresh instance must be asked before.
  [[nodiscard]] const std::vector<Asked>& after() const { return after_; }

  Trialled operator()(const Problem& candidate);
  // Says that `best`, which was tried and failed, is the problem from which candidates depart now.
  void accepted(const Problem& best);

  // The share of runs in which sound instances, the first of them fresh, show it too.
  Rate rate(const Problem& problem, int runs);
  // Tells whether a fresh instance shows it after `calls`. If so these come before every candidate from now on.
  bool shows_behind(const Problem& problem, std::vector<Asked> calls);
  // Counts only failures of fresh instances from now on.
  void always_fresh() { always_fresh_ = true; }
  // Asks a candidate that does not fail again from now on, up to so many times in all.
  void retry(int tries) { tries_ = tries; }

  // Leaves the fewest calls before `problem`, each as simple as can be. `calls` made, those that come before
  // among them; `complete`: within `budget`.
  struct Spent {
    std::int64_t calls = 0;
    bool complete = true;
  };
  Spent shorten(const Problem& problem, const ShrinkBudget& budget);
  Spent simplify(const Problem& problem, const Verdict& verdict, const ShrinkLimits& limits, ShrinkBudget budget);

 private:
  [[nodiscard]] Contract contract(const Problem& problem) const;
  bool fresh();
  Trialled try_alone(const Problem& candidate);
  Trialled try_after(const Problem& candidate, const std::vector<Asked>& calls);
  Trialled try_poison(const Problem& candidate, const std::vector<Asked>& calls);
  Trialled try_behind(const Problem& candidate, const std::vector<Asked>& calls);
  std::optional<Verdict> failure_of(CaseOutcome& outcome);

  FailureKey key_;
  std::vector<std::size_t> laws_;
  std::optional<std::vector<std::size_t>> poison_;  // for `poisoned`: the laws whose calls poison
  std::vector<Asked> after_;
  Problem best_;
  std::vector<Asked> moved_;  // the calls behind which the latest candidate failed
  Bench bench_;
  const std::optional<Policy>& policy_;
  bool sound_ = false;  // known to be, at this moment
  bool always_fresh_ = false;
  int tries_ = 1;
};

}  // namespace attest::engine
