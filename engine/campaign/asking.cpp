#include "engine/campaign/asking.hpp"

#include <chrono>
#include <optional>
#include <shared_mutex>
#include <thread>
#include <utility>

#include "engine/check.hpp"

namespace attest::engine {
namespace {

// For `calm_seconds` after a death, jobs draw one after the other, so that they do not die of one cause side by side.
// Nobody waits for a case that takes longer than the patience, as one that plans or starts a process.
constexpr double calm_seconds = 1, device_patience = 0.02;

}  // namespace

Asking::Asking(CampaignState& state, const SubjectFactory& subject, const SubjectFactory* peer,
               std::shared_ptr<Settled> settled)
    : state_(state),
      subject_(subject),
      peer_(peer),
      settled_(std::move(settled)),
      turns_(state.options.jobs, device_patience) {
  for (int i = 0; i < state.options.jobs; ++i) stations_.push_back(fresh());
}

Station Asking::fresh() const { return {subject_, peer_, state_.options.subject_b.has_value(), settled_}; }

Bench Asking::quiet_bench(int thread) {
  Bench bench = station(thread).bench();
  bench.quiet = &quiet_;
  return bench;
}

void Asking::await_turn(int thread, const std::function<bool()>& ended) {
  while (state_.time.elapsed() - latest_death_ < calm_seconds && !turns_.take(thread, state_.time.elapsed()) &&
         !ended() && !state_.time.is_late())
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

void Asking::ask(CaseRecord& record, int thread) {
  record.begun = true;
  try {
    const std::vector<std::size_t> laws = run_case(record, thread);
    record.done = true;
    if (record.outcome.silent) state_.time.lose();  // no other case is asked any more
    if (record.outcome.cut_off && record.outcome.key().kind == VerdictKind::timeout) ask_late(record, laws, thread);
  } catch (const OutOfTime&) {  // nothing was seen of it
  } catch (...) {
    record.error = std::current_exception();
  }
  if (record.number == state_.first_case) state_.time.first_asked();
}

// A call that was in flight when time was over, and passed its limit: load may have held it up. It is confirmed after
// the end, one such case after the other, until one of them is a finding: its calls alone may still begin.
void Asking::ask_late(CaseRecord& record, const std::vector<std::size_t>& laws, int thread) {
  record.done = false;
  if (state_.time.is_interrupted()) return;
  const std::lock_guard one_by_one(late_guard_);
  if (late_findings_ > 0 || state_.time.is_lost()) return;
  const CampaignTime::Late late(state_.time);
  const Bench bench = quiet_bench(thread);
  const Quiet::Case running(quiet_);
  const Contract contract = contract_for_problem(state_.info, state_.options.policy, record.problem);
  record.outcome = confirm_late(record.problem, contract, bench, laws, std::move(record.outcome));
  record.row = case_row(record.number, record.row.redraws, record.problem, record.outcome, state_.supports);
  record.finished = state_.time.elapsed();
  record.done = true;
  late_findings_ += record.outcome.reported.has_value();
  if (record.outcome.silent) state_.time.lose();
}

// Returns the laws that were asked.
std::vector<std::size_t> Asking::run_case(CaseRecord& record, int thread) {
  const CampaignOptions& options = state_.options;
  const Bench bench = quiet_bench(thread);
  const Quiet::Case running(quiet_);
  const double begin = options.clock();
  const std::uint64_t plan = record.number / options.repeat;
  std::shared_lock lock(state_.rules);
  const bool may_leave = options.avoid && options.repeat > 1 && state_.time.ends_it();
  Avoidance::Drawn drawn =
      state_.avoidance.draw(*state_.domain, record.number, options.repeat,
                            [&](std::uint64_t redraws) { return may_leave && state_.ended_by.is_left(plan, redraws); });
  record.problem = std::move(drawn.problem);
  record.rejected = drawn.rejected;
  const double draw = options.clock() - begin;
  const Contract contract = contract_for_problem(state_.info, options.policy, record.problem);
  auto laws =
      choose_laws(options.laws, record.problem, contract, state_.info, options.seed, record.number, options.repeat);
  record.left_out = state_.avoidance.leave_out(laws, record.problem, record.number, options.repeat);
  lock.unlock();
  const auto settled = [&](const CaseOutcome& seen) {  // by findings, which come when they come
    if (!state_.time.ends_it()) return false;
    const FailureKey key = seen.key();
    if (seen.finding()->died() && key.kind != VerdictKind::timeout && state_.seen_deaths.presumes(key, record.number))
      return true;
    const Row row = row_of(record.problem, state_.info.supports);
    const std::shared_lock reading(state_.rules);
    return state_.avoidance.presumes(key, row, record.number) || state_.ended_by.is(plan, key);
  };
  record.outcome = check_confirmed(record.problem, contract, bench, laws, settled);
  if (record.outcome.reported && !record.outcome.slow && !record.outcome.cut_off) {
    if (record.outcome.finding()->died()) {
      state_.ended_by.leave(plan, drawn.redraws);
      latest_death_ = state_.time.elapsed();
    }
    if (!record.outcome.presumed) note_confirmed(record.outcome, plan);
  }
  record.outcome.seconds.draw += draw;
  record.row = case_row(record.number, drawn.redraws, record.problem, record.outcome, state_.supports);
  if (state_.something_fails.load(std::memory_order_relaxed))
    (void)record.row.traits.row();  // here, and not by the thread that counts
  record.finished = state_.time.elapsed();
  record.seconds = options.clock() - begin;
  return laws;
}

// Notes the outcome of a failure for which a sound instance was asked.
void Asking::note_confirmed(const CaseOutcome& outcome, std::uint64_t plan) {
  const FailureKey key = outcome.key();
  if (state_.options.repeat > 1 && costs_much(outcome) && key.kind != VerdictKind::timeout)
    state_.ended_by.note(plan, key);
  if (outcome.culprit || !outcome.after.empty() || key.kind == VerdictKind::flaky)
    state_.seen_deaths.doubt(key.property);
  else if (outcome.finding()->died())
    state_.seen_deaths.shown(key);
}

}  // namespace attest::engine
