#include "engine/campaign.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <omp.h>

#include "core/error.hpp"
#include "engine/bucket.hpp"
#include "engine/campaign/asking.hpp"
#include "engine/campaign/reproducers.hpp"
#include "engine/campaign/shrinking.hpp"
#include "engine/campaign/state.hpp"
#include "engine/closing.hpp"
#include "engine/cluster.hpp"
#include "engine/effective.hpp"
#include "engine/file.hpp"
#include "engine/holders.hpp"
#include "engine/inquiry.hpp"
#include "engine/sound.hpp"

namespace attest::engine {
namespace {

constexpr double counting_seconds = 0.2;   // between two times that cases are counted: often enough to show progress
constexpr double opening_patience = 0.25;  // seconds that others leave a job for its first case, which starts a process
constexpr double patience_at_the_end = 15;  // seconds past --time for a call that is given longer than its limit
constexpr double commit_seconds = 1, longest_commit_seconds = 10;  // seconds of work that a kill may lose

[[noreturn]] void rethrow(const CaseRecord& record) {
  const auto failed_on = [&](const std::exception& error) {
    return internal_error(
        fmt::format("attest itself failed on case {}: {}: {}", record.number, error.what(), to_text(record.problem)));
  };
  try {
    std::rethrow_exception(record.error);
  } catch (const Error& error) {
    if (error.exit() != Exit::internal) throw;
    throw failed_on(error);
  } catch (const std::exception& error) {
    throw failed_on(error);
  }
}

// Counts the cases of a campaign in their order, and handles their failures.
class Campaign {
 public:
  Campaign(const SubjectFactory& subject, const SubjectFactory* peer, const CampaignOptions& options,
           Observer& observer)
      : peer_(peer),
        options_(options),
        state_(subject.info(), options.subject_b ? &peer->info() : nullptr, options, observer),
        timed_(timed(subject)),
        timed_peer_(peer && options.subject_b ? std::make_unique<Timed>(timed(*peer)) : nullptr),
        reproducers_(state_),
        asking_(state_, timed_, timed_peer(), settled_),
        shrinking_(state_, reproducers_, timed_, timed_peer(), settled_) {
    state_.avoidance.rules = reproducers_.known_rules();
  }

  Summary run() {
    Summary& summary = state_.summary;
    asking_.station(0).bench();
    if (!options_.folder.empty())
      state_.folder = std::make_unique<CampaignFolder>(options_, state_.info, state_.info_b, summary, state_.triage,
                                                       state_.avoidance);
    if (!options_.corpus.empty()) require_writable(options_.corpus);
    summary.earlier_cases = summary.cases;
    reproducers_.mark_known();
    state_.time.begin();
    state_.seconds_before = summary.seconds;
    boundary_ = Avoidance::boundary_after(summary.next_case);
    state_.observer.on_start(options_, state_.info);
    try {
      if (state_.folder) go_on();
      draw_until_over();
      shrinking_.end([this] {
        tell_progress();
        commit(false);
      });
    } catch (...) {  // nothing that was found is lost
      shrinking_.stop();
      finish();
      throw;
    }
    finish();
    return std::move(summary);
  }

 private:
  // Restores the state that an earlier run of this campaign left: its problems, and failures that it did not come to
  // shrink.
  void go_on() {
    for (CaseRow& row : state_.folder->rows(state_.summary.next_case)) {
      row.traits = row_of(state_.avoidance.drawn_before(*state_.domain, row.number, options_.repeat, row.redraws),
                          state_.supports);
      state_.table.add(std::move(row));
    }
    saved_rows_ = state_.table.rows().size();
    const Bench bench = asking_.station(0).bench();
    for (PendingFailure& raw : state_.folder->pending()) {
      if (state_.time.is_over()) {  // it waits on
        ++state_.summary.unshrunk;
        continue;
      }
      ShrinkTask task{std::move(raw.problem), {}, raw.number, raw.seconds, raw.cases, std::move(raw.signature)};
      const Contract contract = contract_for_problem(state_.info, options_.policy, task.problem);
      const auto laws =
          choose_laws(options_.laws, task.problem, contract, state_.info, options_.seed, task.number, options_.repeat);
      task.outcome = check_confirmed(task.problem, contract, bench, laws);
      if (task.outcome.reported) shrinking_.submit(std::move(task));
    }
  }

  void draw_until_over() {
    counted_ = state_.time.elapsed();
    while (!is_over()) {
      const std::uint64_t first = options_.shard.next(state_.summary.next_case, options_.repeat);
      if (options_.cases && first >= *options_.cases) break;
      // A stretch lasts until rules may change; a shard's has at least the one case.
      const std::uint64_t end = std::max(first + 1, std::min(boundary_, options_.cases.value_or(boundary_)));
      state_.first_case = state_.first_case.value_or(first);
      Dispatch dispatch(first, end, options_.repeat, options_.shard, growth());
      const bool go_on = run_stretch(dispatch);
      if (state_.summary.next_case >= boundary_) learn();
      if (!go_on) break;
    }
    if (state_.time.is_interrupted()) state_.summary.interrupted = true;
  }
  [[nodiscard]] bool is_over() {
    if (state_.time.is_interrupted()) state_.summary.interrupted = true;
    return state_.summary.interrupted || reproducers_.is_unwritten() || (drawn_ > 0 && state_.time.is_over());
  }

  // Lets a stretch grow under a time limit, where the last cases before rules change may plan or die and nobody is to
  // wait long for them: rules change once these cases are in, and problems drawn meanwhile follow the present rules.
  [[nodiscard]] std::optional<Dispatch::Growth> growth() const {
    if (!state_.time.ends_it()) return std::nullopt;
    const std::uint64_t most = options_.cases.value_or(std::numeric_limits<std::uint64_t>::max());
    const auto next_end = [most](std::uint64_t end) { return std::min(most, Avoidance::boundary_after(end)); };
    return Dispatch::Growth{next_end, counting_seconds};
  }

  // Every case by itself, on whichever thread is free; nothing here depends on which. This thread counts them, too.
  // False if the campaign ends here.
  bool run_stretch(Dispatch& dispatch) {
    bool go_on = true;
    std::exception_ptr error;
#pragma omp parallel num_threads(options_.jobs)
    {
      const int thread = omp_get_thread_num();
      const bool on_a_device = !state_.info.device.empty();
      CaseRecord* record = nullptr;
      double opening = opening_patience;
      do {
        if (record) {
          asking_.begin_turn(thread, std::exchange(opening, 0));
          if (state_.time.is_late())
            dispatch.stop();
          else
            asking_.ask(*record, thread);
          asking_.end_turn(thread);
          record = dispatch.give_back(record, options_.jobs > 1 && costs_much(record->outcome));
        }
        if (thread == 0) count(dispatch, counting_seconds, go_on, error);
        if (!record && thread > 0 && thread == options_.jobs - 1 && !on_a_device) stand_aside(dispatch);
        // The thread that counts never waits for its turn.
        if (!record && thread > 0 && on_a_device) asking_.await_turn(thread, [&] { return dispatch.is_over(); });
        if (!record) record = dispatch.next(thread > 0);
        if (!record) asking_.end_turn(thread);
        if (!record && thread == 0) {
          dispatch.wait(counting_seconds);
          count(dispatch, 0, go_on, error);
        }
      } while (record || (thread == 0 && !dispatch.is_over()));
    }
    count(dispatch, 0, go_on, error);
    if (error) std::rethrow_exception(error);
    return go_on;
  }
  // One job of several leaves its processor to what is shrunk, which takes none where calls are a device's.
  void stand_aside(const Dispatch& dispatch) const {
    while (shrinking_.is_busy() && !dispatch.is_over() && !state_.time.is_late())
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  // Counts in case order the cases that came back, once so many seconds have passed since the last time.
  void count(Dispatch& dispatch, double every, bool& go_on, std::exception_ptr& error) {
    const double seconds = state_.time.elapsed() - counted_;
    if (error || !go_on || seconds < every) return;
    try {
      while (std::optional<CaseRecord> record = go_on ? dispatch.take() : std::nullopt) go_on = take(*record, dispatch);
      if (state_.time.ends_it() && state_.summary.next_case >= boundary_) learn();
      shrinking_.beside(seconds);
      tell_progress();
      commit(false);
    } catch (...) {
      error = std::current_exception();
    }
    if (error || !go_on) dispatch.stop();
    counted_ = state_.time.elapsed();
  }
  void learn() {
    {
      const std::unique_lock lock(state_.rules);
      state_.avoidance.learn(state_.table, options_.repeat);
    }
    shrinking_.order();
    boundary_ = Avoidance::boundary_after(state_.summary.next_case);
  }

  // Counts a case, in case order, and handles its failure. False when the campaign ends here.
  bool take(CaseRecord& record, Dispatch& dispatch) {
    if (record.error) rethrow(record);
    if (!record.done) return pass_over(record);
    Summary& summary = state_.summary;
    ++drawn_;
    summary.add(record.problem, record.outcome);
    summary.rejected += record.rejected;
    summary.redrawn += record.row.redraws > 0;
    summary.laws_left_out += record.left_out;
    summary.next_case = record.number + 1;
    summary.seconds = state_.seconds_before + state_.time.elapsed();
    state_.avoidance.count(record.row);
    if (state_.time.ends_it()) state_.avoidance.spend(record.row, record.seconds);
    const bool in_question = state_.silence.add(record.number, record.finished, record.outcome);
    if (!state_.silence.lasts()) shrinking_.release();
    const bool ends = record.outcome.reported && fail(record, dispatch);
    state_.table.add(std::move(record.row));
    return !ends && !(in_question && returns_nothing(record));
  }
  // A case that was not asked to its end. After an interrupt it and what came later is left to whoever resumes; where
  // time is over what came later was asked all the same, and counts; the same holds where nothing returns any more.
  bool pass_over(const CaseRecord& record) {
    if (!state_.time.is_lost() && (state_.time.is_interrupted() || !state_.time.is_over())) return false;
    state_.summary.cut_off += record.begun;
    return true;
  }

  // Tells if the subject returns nothing any more: a fresh instance is asked after a case on which it did not. Failures
  // meanwhile wait to be shrunk until something is returned; rows of such cases tell nothing of problems.
  bool returns_nothing(const CaseRecord& record) {
    Silence& silence = state_.silence;
    bool returns = false;
    if (!record.outcome.silent) {
      try {
        Station station = asking_.fresh();
        returns = returns_anything(station.bench(), contract_for_problem(state_.info, options_.policy, record.problem));
      } catch (const OutOfTime&) {
        return false;
      } catch (const Error& error) {
        if (error.exit() != Exit::no_subject) throw;
      }
    }
    if (returns) {
      silence.broken();
      shrinking_.release();
      return false;
    }
    state_.summary.silent =
        fmt::format("no call returned from case {} on, nor does a fresh instance return for the smallest problem: {}",
                    silence.first(), silence.reason());
    if (const std::string holders = state_.info.device.empty() ? "" : holders_of_gpus(); !holders.empty())
      state_.summary.silent += "; GPUs are held by the processes " + holders;
    if (silence.follows_an_answer()) {  // a failure that follows none may be shrunk
      state_.time.lose();
      state_.table.forget_from(silence.first());
      saved_rows_ = std::min(saved_rows_, state_.table.rows().size());
    } else {
      shrinking_.release();
    }
    return true;
  }
  void doubt(const std::string& property, const Row& row) {
    const std::unique_lock lock(state_.rules);
    state_.avoidance.doubt(property, row);
  }
  // Handles a failing case. Returns true if it is to end a campaign that ends at its first failure.
  bool fail(CaseRecord& record, Dispatch& dispatch) {
    state_.something_fails.store(true, std::memory_order_relaxed);
    const FailureKey key = record.outcome.key();
    if (key.kind == VerdictKind::flaky || key.kind == VerdictKind::poisoned) doubt(key.property, record.row.traits);
    const Problem& blamed = record.outcome.blamed(record.problem);
    const AvoidRule* rule = record.outcome.culprit ? nullptr : state_.avoidance.explanation(key, record.row.traits);
    if (rule && rule->known) {
      reproducers_.count_known(*rule);
      return false;
    }
    const std::string& signature = record.row.signature =
        rule ? to_text(key) + ":" + to_text(*rule) : signature_of(key, blamed);
    // A presumed one for which there is no condition and no plan may be the first of its kind of problem.
    if (record.outcome.presumed && (rule || state_.ended_by.is(record.number / options_.repeat, key))) {
      ++state_.triage.states[signature].failures;
      return false;
    }
    if (!state_.triage.ask(key, signature, state_.avoidance.understood(key))) return false;
    ShrinkTask task{record.problem, record.outcome, record.number, record.finished, state_.summary.cases, signature};
    const RawFailure raw{blamed, record.outcome, record.number, record.finished};
    state_.observer.on_failure(raw);
    if (state_.folder) reproducers_.keep([&] { state_.folder->raw_failure(raw, task); });
    shrinking_.submit(std::move(task));
    if (options_.continue_after_failure) return false;
    if (state_.silence.follows_an_answer() && returns_nothing(record)) return true;
    dispatch.hold();
    shrinking_.all();
    dispatch.go_on();
    return std::ranges::any_of(state_.summary.findings, [](const Finding& finding) { return !finding.known; });
  }
  void tell_progress() {
    const Summary& summary = state_.summary;
    Progress progress{summary.cases, summary.executed, summary.failing_cases, state_.time.elapsed(), {}, {}, &summary};
    if (options_.seconds) progress.seconds_left = std::max(0.0, state_.time.left());
    if (options_.cases) progress.cases_left = *options_.cases - std::min(*options_.cases, summary.next_case);
    state_.observer.on_progress(progress);
  }
  // Every second at first; every ten when the campaign is long and its log with it.
  void commit(bool last) {
    const double elapsed = state_.time.elapsed();
    state_.summary.seconds = state_.seconds_before + elapsed;
    const double interval = std::clamp(elapsed / 100, commit_seconds, longest_commit_seconds);
    if (!state_.folder || (!last && elapsed - committed_ < interval)) return;
    const std::vector<CaseRow>& rows = state_.table.rows();
    reproducers_.keep([&] {
      state_.folder->commit(state_.summary, state_.triage, state_.avoidance, std::span(rows).subspan(saved_rows_));
    });
    saved_rows_ = rows.size();
    committed_ = state_.time.elapsed();
  }

  void finish() {
    commit(true);
    count_unshrunk(state_.triage, state_.summary);
    std::ranges::stable_sort(state_.summary.findings, {}, &Finding::case_number);
    tell_defects();
    state_.observer.on_end(state_.summary);
    reproducers_.require_written();
  }
  void tell_defects() {
    Summary& summary = state_.summary;
    const bool asks = !state_.time.is_lost() && !summary.interrupted;
    Allowance& closing = state_.time.close();
    std::map<std::string, std::string> buckets;
    for (const auto& [signature, state] : state_.triage.states) buckets[signature] = state.bucket;
    Inquiry inquiry(asking_.station(0), state_.op, closing);
    summary.defects =
        cluster(summary.findings, asks ? inquiry.evidences(state_.table, buckets) : Evidences{state_.table, buckets});
    KnownQuestions questions;
    if (asks)
      questions = {[&](const Entry& entry) { return inquiry.still_shows(entry); },
                   [&](const Problem& at, const std::string& property) {
                     return inquiry.reproduced(at, property, options_, shrinking_.limits());
                   },
                   [&](const Entry& at) { return inquiry.calls_of(at); }};
    Known(options_.known, state_.supports, std::move(questions)).mark(summary);
    for (const Defect& defect : summary.defects) reproducers_.note_predicate(defect);
    for (Defect& defect : summary.defects)
      if (!defect.known && asks)
        state_.time.spend([&] { defect.effective = effective_precision(timed_, summary, defect); });
    state_.time.spend([&] { explain_defects(summary, asking_.station(0), shrinking_.limits(), options_); });
    summary.avoided = avoided(state_.avoidance, summary, state_.table, state_.triage);
  }

  [[nodiscard]] Timed timed(const SubjectFactory& subject) {
    return {subject, [this] { return state_.time.has_no_calls_left(); },
            [this] { return state_.time.left(patience_at_the_end); }};
  }
  [[nodiscard]] const SubjectFactory* timed_peer() const { return timed_peer_ ? timed_peer_.get() : peer_; }

  const SubjectFactory* const peer_;
  const CampaignOptions& options_;
  CampaignState state_;
  const Timed timed_;                        // the subject
  const std::unique_ptr<Timed> timed_peer_;  // the peer, where it is under test too
  const std::shared_ptr<Settled> settled_ = std::make_shared<Settled>();
  Reproducers reproducers_;
  Asking asking_;
  std::uint64_t boundary_ = 0;  // the case at which rules may change next
  std::uint64_t drawn_ = 0;     // in this run
  std::size_t saved_rows_ = 0;  // rows of the table that the folder holds
  double committed_ = 0, counted_ = 0;
  Shrinking shrinking_;  // last: its threads use the rest
};

}  // namespace

const Op& op_of(const CampaignOptions& options, const SubjectInfo& info) {
  if (options.op == nullptr) return ops::first_op(info);
  if (!options.op->offered(info))
    throw usage_error(fmt::format("{} does not offer the operation {}", info.name, options.op->name()));
  return *options.op;
}

Summary begun(const CampaignOptions& options, const SubjectInfo& info, const SubjectInfo& peer) {
  const Op& op = op_of(options, info);
  Summary summary;
  summary.verb = options.verb;
  summary.op = &op;
  summary.subject = options.subject;
  summary.subject_version = info.version;
  summary.policy = options.policy_text;
  summary.policy_declared = options.policy || op.policy_declared(info);
  if (options.observed && info.declared) summary.assumed = assumed_of(*options.observed, *info.declared, op);
  summary.seed = options.seed;
  summary.repeat = options.repeat;
  if (options.subject_b) {
    summary.subject_b = options.subject_b->subject;
    summary.subject_b_version = peer.version;
    summary.policy_declared = options.policy || (op.policy_declared(info) && op.policy_declared(peer));
  }
  return summary;
}

void name_subjects(const CampaignOptions& options, Entry& entry) {
  entry.subject_file = options.subject_file;
  entry.subject_name = options.subject_name;
  if (!options.subject_b) return;
  entry.subject_b->subject = portable_subject(options.subject_b->subject);
  entry.subject_b->file = options.subject_b->file;
  entry.subject_b->name = options.subject_b->name;
}

Summary run_campaign(const SubjectFactory& subject, const SubjectFactory* peer, const CampaignOptions& options,
                     Observer& observer) {
  validate(options.laws);
  if (options.jobs < 1) throw usage_error("--jobs must be at least 1");
  if (options.repeat < 1) throw usage_error("a shape must be kept for at least one case");
  if (options.shard.index < 1 || options.shard.index > options.shard.count)
    throw usage_error(fmt::format("--shard {}/{}: the first number must be in 1..{}", options.shard.index,
                                  options.shard.count, options.shard.count));
  return Campaign(subject, peer, options, observer).run();
}

}  // namespace attest::engine
