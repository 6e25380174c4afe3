#include "engine/campaign/shrinking.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

#include "engine/bucket.hpp"
#include "engine/failure.hpp"

namespace attest::engine {
namespace {

// The time past --time within which a shrink may finish. Its best problem by then is asked once more, until no call is
// begun.
constexpr double shrink_grace_seconds = 1;
static_assert(shrink_grace_seconds < finishing_seconds);
// The shares of --time that shrinking one failure may take, so that one whose calls take long leaves some to the
// others.
constexpr double death_share = 1.0 / 6, number_share = 1.0 / 4, least_share_seconds = 3;
constexpr std::uint64_t cheap_before_costly =
    6;  // failures of one law's wrong numbers that are shrunk before the first death
// A death on a device holds up everybody's calls: while problems are drawn, shrinking may bring about some in so much
// of each period.
constexpr double deaths_period = 1.5, deaths_part = 0.5;  // seconds

std::size_t jobs_of(const CampaignOptions& options) { return static_cast<std::size_t>(std::max(1, options.jobs / 2)); }

// An error leaves its instance as it was; a death costs a start with each call.
std::uint64_t rank_of_costly(const ShrinkTask& task, std::uint64_t place) noexcept {
  return task.outcome.finding()->died() ? cheap_before_costly * place : place;
}

Failure failure_of(const ShrinkTask& task, const CampaignOptions& options) {
  return {task.problem, task.outcome, options.seed_kept_back ? std::nullopt : std::optional(options.seed), task.number};
}

}  // namespace

Shrinking::Shrinking(CampaignState& state, Reproducers& reproducers, const SubjectFactory& subject,
                     const SubjectFactory* peer, std::shared_ptr<Settled> settled)
    : state_(state),
      reproducers_(reproducers),
      limits_{state.supports, state.domain->dtypes(),
              [&domain = *state.domain](const Problem& problem) { return domain.accepts(problem); }},
      shrinker_(
          subject, peer,
          [this](const std::function<Bench()>& bench, ShrinkTask task, const std::atomic<bool>& stop,
                 const auto& accepted) { return shrunk(bench, std::move(task), stop, accepted); },
          jobs_of(state.options), state.options.subject_b.has_value(), std::move(settled), state.options.clock) {}

void Shrinking::submit(ShrinkTask task) {
  const FailureKey key = task.outcome.key();
  const std::uint64_t before = state_.triage.chosen[to_text(key)];
  if (state_.options.seconds) task.rank = costs_much(key.kind) ? rank_of_costly(task, 1 + before) : before;
  if (state_.silence.follows_an_answer())
    withheld_.push_back(std::move(task));
  else
    shrinker_.submit(std::move(task));
}

void Shrinking::release() {
  for (ShrinkTask& task : std::exchange(withheld_, {})) shrinker_.submit(std::move(task));
}

void Shrinking::order() {
  {
    const std::unique_lock lock(state_.rules);
    state_.avoidance.settle([this](const AvoidRule& rule) { return state_.stands_for(rule); });
  }
  if (!state_.options.seconds || !drawing_) return;
  const auto costly = [](const ShrinkTask& task) { return costs_much(task.outcome.finding()->verdict.kind); };
  std::map<std::string, std::uint64_t> of_cause;
  for (ShrinkTask& task : shrinker_.take_waiting(costly)) {
    const auto [cause, stands] = cause_of(task);
    if (stands) {
      postponed_.push_back(std::move(task));
    } else {
      task.rank = rank_of_costly(task, ++of_cause[cause]);
      shrinker_.submit(std::move(task));
    }
  }
}

Shrinking::Cause Shrinking::cause_of(const ShrinkTask& task) const {
  const FailureKey key = task.outcome.key();
  const Row row = row_of(task.problem, state_.info.supports);
  const AvoidRule* rule = task.outcome.culprit ? nullptr : state_.avoidance.explanation(key, row);
  if (rule && costs_much(key.kind)) return {to_text(key) + ":" + to_text(*rule), state_.avoidance.is_settled(key, row)};
  return {to_text(key), false};
}

void Shrinking::beside(double seconds) {
  if (state_.options.jobs > 1) {
    shrinker_.allow(1);
    shrinker_.hold_deaths(!state_.info.device.empty() && state_.time.ends_it() &&
                          std::fmod(state_.time.elapsed(), deaths_period) >= deaths_part);
  } else if (shrinker_.busy() && (owed_ -= seconds) < 0) {
    owed_ += shrinker_.run_for(std::min(-owed_, state_.time.left()));
  }
  take_results();
}

void Shrinking::all() {
  shrinker_.hold_deaths(false);
  shrinker_.allow(1);
  while (shrinker_.busy() && !state_.time.is_interrupted()) {
    shrinker_.wait(0.1);
    take_results();
  }
}

// Half of the jobs go on when nothing else is left.
void Shrinking::end(const std::function<void()>& meanwhile) {
  const auto enough = [&] {
    if (state_.time.is_interrupted()) state_.summary.interrupted = true;
    return state_.summary.interrupted || reproducers_.is_unwritten() || state_.time.is_over(shrink_grace_seconds);
  };
  drawing_ = false;
  if (state_.time.is_lost()) return end_in_silence();
  release();
  for (ShrinkTask& task : std::exchange(postponed_, {})) {
    task.rank = std::numeric_limits<std::uint64_t>::max();
    shrinker_.submit(std::move(task));
  }
  shrinker_.hold_deaths(false);
  shrinker_.allow(jobs_of(state_.options));
  while (shrinker_.busy() && !enough()) {
    shrinker_.wait(0.1);
    take_results();
    meanwhile();
  }
  tell_unshrunk(stopped());
}

// Stops, and returns what still waited.
std::vector<ShrinkTask> Shrinking::stopped() {
  shrinker_.stop();
  std::vector<ShrinkTask> waiting = shrinker_.take_waiting([](const ShrinkTask&) { return true; });
  while (shrinker_.busy()) {
    shrinker_.wait(0.1);
    take_results();
  }
  return waiting;
}

// A subject that returns nothing shows nothing either: the first of what failed since is told as it was seen, and the
// rest is its doing.
void Shrinking::end_in_silence() {
  std::vector<ShrinkTask> waiting = stopped();
  if (!withheld_.empty()) {
    withheld_.front().outcome.presumed = false;
    waiting.push_back(std::move(withheld_.front()));
    state_.summary.unshrunk += withheld_.size() - 1;
  }
  tell_unshrunk(std::move(waiting));
}

// Tells failures that no finding stands for. The first of each kind and condition is its own reproducer, as it was
// seen: the first that a fresh instance was asked about, if there is one, and none that was presumed. Time is over, so
// that no call is made for it.
void Shrinking::tell_unshrunk(std::vector<ShrinkTask> waiting) {
  state_.summary.unshrunk += waiting.size();
  std::erase_if(waiting, [](const ShrinkTask& task) { return task.outcome.presumed; });
  std::set<std::string> told;
  for (const Finding& finding : state_.summary.findings) told.insert(to_text(failure_key_of(finding.entry)));
  std::ranges::stable_sort(waiting, {},
                           [](const ShrinkTask& task) { return std::pair(!task.outcome.before.empty(), task.number); });
  std::erase_if(waiting, [&](const ShrinkTask& task) {
    const auto [cause, stands] = cause_of(task);
    return stands || !told.insert(cause).second;
  });
  for (ShrinkTask& task : waiting) {
    ShrinkResult result;
    result.entry = as_seen(task, nullptr);
    result.task = std::move(task);
    reproducers_.merge(std::move(result), false);
  }
}

void Shrinking::take_results() {
  for (const ShrinkProgress& progress : shrinker_.take_progress()) {
    state_.observer.on_shrink_step(progress.step);
    if (state_.folder) reproducers_.keep([&] { state_.folder->better(progress.number, progress.step); });
  }
  std::vector<ShrinkResult> results = shrinker_.take_results();
  for (ShrinkResult& result : results) {
    if (result.error) std::rethrow_exception(result.error);
    state_.summary.unshrunk += result.unfinished;
    const bool whole = !result.unfinished;
    if (!result.unasked) reproducers_.merge(std::move(result), whole);
  }
  if (!results.empty()) order();
}

ShrinkResult Shrinking::shrunk(const std::function<Bench()>& bench, ShrinkTask task, const std::atomic<bool>& stop,
                               const std::function<void(const ShrinkStep&)>& accepted) const {
  std::optional<ShrinkStep> latest;
  try {
    return shrunk_in_time(bench(), task, stop, [&](const ShrinkStep& step) {
      latest = step;
      accepted(step);
    });
  } catch (const OutOfTime&) {
    const bool alone = task.outcome.after.empty() && !task.outcome.culprit;
    ShrinkResult result;
    result.entry = as_seen(task, alone && latest ? &*latest : nullptr);
    result.unasked = task.outcome.presumed && !latest;
    result.task = std::move(task);
    result.unfinished = true;
    return result;
  }
}

ShrinkResult Shrinking::shrunk_in_time(Bench bench, const ShrinkTask& task, const std::atomic<bool>& stop,
                                       const std::function<void(const ShrinkStep&)>& accepted) const {
  const CampaignOptions& options = state_.options;
  ShrinkBudget left = budget(task.outcome.finding()->verdict.kind);
  left.stop = &stop;
  ShrinkResult result;
  const double start = options.clock();
  result.entry = reproduce(failure_of(task, options), bench, options.subject, options.policy, limits_, left, accepted);
  name_subjects(options, result.entry);
  result.unfinished = !result.entry.minimal && left.seconds && options.clock() - start >= *left.seconds;
  if (result.entry.seen == VerdictKind::fail && !stop) {  // a death is not asked for once more
    std::vector<std::size_t> laws;
    for (const LawVerdict& law : task.outcome.laws)
      if (law.law == law_named(policy_bound_name, state_.op) || is_finding(law.verdict.kind)) laws.push_back(law.law);
    for (const LawVerdict& law : check(result.entry.problem, result.entry.contract, bench, laws).laws)
      if (is_finding(law.verdict.kind))
        result.shows.push_back(to_text(engine::key_of(all_laws()[law.law].name, law.verdict)));
  }
  result.task = task;
  return result;
}

// The failure as its own reproducer, without a call.
Entry Shrinking::as_seen(const ShrinkTask& task, const ShrinkStep* better) const {
  const CampaignOptions& options = state_.options;
  Entry entry =
      as_it_was_seen(failure_of(task, options), {options.subject, options.policy, state_.info, state_.info_b}, better);
  name_subjects(options, entry);
  return entry;
}

ShrinkBudget Shrinking::budget(VerdictKind kind) const {
  ShrinkBudget budget = state_.options.shrink;
  budget.clock = state_.options.clock;
  if (const auto& seconds = state_.options.seconds) {
    const double share = costs_much(kind) ? death_share : number_share;
    const double left = std::min(std::max(0.0, state_.time.left(shrink_grace_seconds)),
                                 std::max(least_share_seconds, share * *seconds));
    budget.seconds = std::min(budget.seconds.value_or(left), left);
  }
  return budget;
}

}  // namespace attest::engine
