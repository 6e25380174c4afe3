#include "engine/campaign.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <exception>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <shared_mutex>
#include <thread>
#include <vector>

#include <omp.h>

#include "core/error.hpp"
#include "engine/avoid.hpp"
#include "engine/bucket.hpp"
#include "engine/campaign_folder.hpp"
#include "engine/case_table.hpp"
#include "engine/closing.hpp"
#include "engine/cluster.hpp"
#include "engine/dispatch.hpp"
#include "engine/effective.hpp"
#include "engine/failure.hpp"
#include "engine/file.hpp"
#include "engine/holders.hpp"
#include "engine/inquiry.hpp"
#include "engine/instance.hpp"
#include "engine/quiet.hpp"
#include "engine/recorder.hpp"
#include "engine/restated.hpp"
#include "engine/seen_deaths.hpp"
#include "engine/shrinker.hpp"
#include "engine/silence.hpp"
#include "engine/sound.hpp"
#include "engine/triage.hpp"
#include "engine/turns.hpp"
#include "properties/property.hpp"

namespace attest::engine {
namespace {

constexpr double counting_seconds = 0.2;  // between two times that cases are counted: often enough to show progress
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
// For `calm_seconds` after a death, jobs draw one after the other, so that they do not die of one cause side by side.
// Nobody waits for a case that takes longer than the patience, as one that plans or starts a process. The first case of
// a job starts a process.
constexpr double calm_seconds = 1, device_patience = 0.02, opening_patience = 0.25;
constexpr double patience_at_the_end = 15;  // seconds past --time for a call that is given longer than its limit
constexpr double commit_seconds = 1, longest_commit_seconds = 10;  // seconds of work that a kill may lose

class Campaign {
 public:
  Campaign(const SubjectFactory& subject, const SubjectFactory* peer, const CampaignOptions& options,
           Observer& observer)
      : peer_(peer),
        options_(options),
        observer_(observer),
        info_(subject.info()),
        op_(op_of(options, info_)),
        timed_(timed(subject)),
        timed_peer_(peer && options.subject_b ? std::make_unique<Timed>(timed(*peer)) : nullptr),
        supports_(info_),
        domain_(domain_for(info_, op_, options.policy, options.assume, options.sizes)),
        turns_(options.jobs, device_patience),
        table_(supports_),
        avoidance_(supports_, options.seed, options.avoid, options.avoid && options.shard.count == 1),
        shrinker_(
            timed_, timed_peer(),
            [this](const std::function<Bench()>& bench, ShrinkTask task, const std::atomic<bool>& stop,
                   const auto& accepted) { return shrunk(bench, std::move(task), stop, accepted); },
            shrinking_jobs(options), options.subject_b.has_value(), settled_, options.clock) {
    for (int i = 0; i < options.jobs; ++i)
      stations_.emplace_back(timed_, timed_peer(), options.subject_b.has_value(), settled_);
    for (const KnownDefect& known : known_defects_)
      if (&known.entry.problem.op() == &op_) avoidance_.rules.push_back(known.rule);
    limits_ = {supports_, domain_->dtypes(), [this](const Problem& problem) { return admissible(problem); }};
    summary_ = begun(options, info_, options.subject_b ? peer->info() : info_);
    if (options.assume) {
      summary_.assume = options.assume->text();
      summary_.given_up = given_up(info_, op_, options.policy, *options.assume, options.sizes);
    }
    if (options.shard.count > 1) summary_.shard = fmt::format("{}/{}", options.shard.index, options.shard.count);
  }

  Summary run() {
    stations_[0].bench();
    if (!options_.folder.empty())
      folder_ = std::make_unique<CampaignFolder>(options_, info_, options_.subject_b ? &peer_->info() : nullptr,
                                                 summary_, triage_, avoidance_);
    if (!options_.corpus.empty()) require_writable(options_.corpus);
    summary_.earlier_cases = summary_.cases;
    for (Finding& finding : summary_.findings) finding.known = is_known(known_buckets_, finding.entry.bucket);
    start_ = options_.clock();
    if (options_.seconds) last_call_ = *options_.seconds + finishing_seconds;
    seconds_before_ = summary_.seconds;
    boundary_ = Avoidance::boundary_after(summary_.next_case);
    observer_.on_start(options_, info_);
    try {
      if (folder_) go_on();
      draw_until_over();
      end_shrinking();
    } catch (...) {  // nothing that was found is lost
      shrinker_.stop();
      finish();
      throw;
    }
    finish();
    return std::move(summary_);
  }

 private:
  // Restores the state that an earlier run of this campaign left: its problems, and failures that it did not come to
  // shrink.
  void go_on() {
    for (CaseRow& row : folder_->rows(summary_.next_case)) {
      row.traits = row_of(avoidance_.drawn_before(*domain_, row.number, options_.repeat, row.redraws), supports_);
      table_.add(std::move(row));
    }
    saved_rows_ = table_.rows().size();
    const Bench bench = stations_[0].bench();
    for (PendingFailure& raw : folder_->pending()) {
      if (out_of_time()) {  // it waits on
        ++summary_.unshrunk;
        continue;
      }
      ShrinkTask task{std::move(raw.problem), {}, raw.number, raw.seconds, raw.cases, std::move(raw.signature)};
      const Contract contract = contract_for_problem(info_, options_.policy, task.problem);
      const auto laws =
          choose_laws(options_.laws, task.problem, contract, info_, options_.seed, task.number, options_.repeat);
      task.outcome = check_confirmed(task.problem, contract, bench, laws);
      if (task.outcome.reported) submit(std::move(task));
    }
  }

  void draw_until_over() {
    counted_ = elapsed();
    while (!over()) {
      const std::uint64_t first = options_.shard.next(summary_.next_case, options_.repeat);
      if (options_.cases && first >= *options_.cases) break;
      // A stretch lasts until rules may change; a shard's has at least the one case.
      const std::uint64_t end = std::max(first + 1, std::min(boundary_, options_.cases.value_or(boundary_)));
      first_ = first_.value_or(first);
      Dispatch dispatch(first, end, options_.repeat, options_.shard, growth());
      const bool go_on = run_stretch(dispatch);
      if (summary_.next_case >= boundary_) learn();
      if (!go_on) break;
    }
    if (interrupted()) summary_.interrupted = true;
  }

  // Lets a stretch grow under a time limit, where the last cases before rules change may plan or die and nobody is to
  // wait long for them: rules change once these cases are in, and problems drawn meanwhile follow the present rules.
  [[nodiscard]] std::optional<Dispatch::Growth> growth() const {
    if (!time_ends_it()) return std::nullopt;
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
      CaseRecord* record = nullptr;
      double opening = opening_patience;
      do {
        if (record) {
          turns_.begin(thread, elapsed() + std::exchange(opening, 0));
          if (is_late())
            dispatch.stop();
          else
            ask(*record);
          turns_.end(thread);
          record = dispatch.give_back(record, options_.jobs > 1 && costs_much(record->outcome));
        }
        if (thread == 0) count(dispatch, counting_seconds, go_on, error);
        if (!record && thread > 0 && thread == options_.jobs - 1 && info_.device.empty()) stand_aside(dispatch);
        if (!record && thread > 0 && !info_.device.empty()) await_turn(thread, dispatch);
        if (!record) record = dispatch.next(thread > 0);
        if (!record) turns_.end(thread);
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
  // Tells whether no case is begun any more. The first one is, whatever it takes.
  [[nodiscard]] bool is_late() const { return has_begun_ && (out_of_time() || interrupted()); }
  // One job of several leaves its processor to what is shrunk, which takes none where calls are a device's.
  void stand_aside(const Dispatch& dispatch) const {
    while (shrinker_.busy() && !dispatch.is_over() && !is_late())
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  // Waits for a turn where all ask one device and calls have just ended processes there. The thread that counts never
  // waits.
  void await_turn(int thread, const Dispatch& dispatch) {
    while (elapsed() - latest_death_ < calm_seconds && !turns_.take(thread, elapsed()) && !dispatch.is_over() &&
           !is_late())
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  // Counts in case order the cases that came back, once so many seconds have passed since the last time.
  void count(Dispatch& dispatch, double every, bool& go_on, std::exception_ptr& error) {
    const double seconds = elapsed() - counted_;
    if (error || !go_on || seconds < every) return;
    try {
      while (std::optional<CaseRecord> record = go_on ? dispatch.take() : std::nullopt) go_on = take(*record, dispatch);
      if (time_ends_it() && summary_.next_case >= boundary_) learn();
      shrink_beside(seconds);
      tell_progress();
      commit(false);
    } catch (...) {
      error = std::current_exception();
    }
    if (error || !go_on) dispatch.stop();
    counted_ = elapsed();
  }
  void learn() {
    {
      const std::unique_lock lock(rules_);
      avoidance_.learn(table_, options_.repeat);
    }
    order_shrinking();
    boundary_ = Avoidance::boundary_after(summary_.next_case);
  }

  // Tells whether a reproducer of this campaign, or of a known defect, lies where the rule says.
  [[nodiscard]] bool stands_for(const AvoidRule& rule) const {
    return rule.known || std::ranges::any_of(summary_.findings, [&](const Finding& finding) {
             return finding.entry.seen == rule.key.kind && failure_key_of(finding.entry) == rule.key &&
                    rule.predicate.holds(finding.entry.problem, info_.supports);
           });
  }
  // Tells whether what is drawn may depend on what cases cost: where it is their number that ends it, it may not.
  [[nodiscard]] bool time_ends_it() const { return options_.seconds || !options_.cases; }

  // One job of several shrinks while the others draw; the only one shrinks for as long as it drew.
  void shrink_beside(double seconds) {
    if (options_.jobs > 1) {
      shrinker_.allow(1);
      shrinker_.hold_deaths(!info_.device.empty() && time_ends_it() &&
                            std::fmod(elapsed(), deaths_period) >= deaths_part);
    } else if (shrinker_.busy() && (owed_ -= seconds) < 0) {
      owed_ += shrinker_.run_for(std::min(-owed_, options_.seconds ? *options_.seconds - elapsed() : -owed_));
    }
    take_results();
  }
  // An error leaves its instance as it was; a death costs a start with each call.
  static std::uint64_t rank_of_costly(const ShrinkTask& task, std::uint64_t place) noexcept {
    return task.outcome.finding()->died() ? cheap_before_costly * place : place;
  }
  // Queues a task. Under a time limit the first wrong numbers of each law are shrunk first, then the first error of
  // each cause, and deaths after some of each; deaths and errors that a finding stands for already wait until drawing
  // has ended.
  void submit(ShrinkTask task) {
    const FailureKey key = task.outcome.key();
    const std::uint64_t before = triage_.chosen[to_text(key)];
    if (options_.seconds) task.rank = costs_much(key.kind) ? rank_of_costly(task, 1 + before) : before;
    if (silence_.follows_an_answer())
      withheld_.push_back(std::move(task));
    else
      shrinker_.submit(std::move(task));
  }
  // After rules or findings changed.
  void order_shrinking() {
    {
      const std::unique_lock lock(rules_);
      avoidance_.settle([this](const AvoidRule& rule) { return stands_for(rule); });
    }
    if (!options_.seconds || !drawing_) return;
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
  // The text that a failure is counted under, and whether a finding stands for it.
  struct Cause {
    std::string text;
    bool stands;
  };
  [[nodiscard]] Cause cause_of(const ShrinkTask& task) const {
    const FailureKey key = task.outcome.key();
    const Row row = row_of(task.problem, info_.supports);
    const AvoidRule* rule = task.outcome.culprit ? nullptr : avoidance_.explanation(key, row);
    if (rule && costs_much(key.kind)) return {to_text(key) + ":" + to_text(*rule), avoidance_.is_settled(key, row)};
    return {to_text(key), false};
  }
  static bool costs_much(VerdictKind kind) noexcept { return ends_instance(kind) || kind == VerdictKind::error; }
  static bool costs_much(const CaseOutcome& outcome) noexcept {
    return std::ranges::any_of(outcome.laws, [](const LawVerdict& law) { return costs_much(law.verdict.kind); });
  }

  // Half of the jobs go on when nothing else is left, for as long as a time limit permits.
  void end_shrinking() {
    const auto enough = [&] {
      if (interrupted()) summary_.interrupted = true;
      return summary_.interrupted || unwritten_ ||
             (options_.seconds && elapsed() >= *options_.seconds + shrink_grace_seconds);
    };
    drawing_ = false;
    if (is_lost_) return end_in_silence();
    release();
    for (ShrinkTask& task : std::exchange(postponed_, {})) {
      task.rank = std::numeric_limits<std::uint64_t>::max();
      shrinker_.submit(std::move(task));
    }
    shrinker_.hold_deaths(false);
    shrinker_.allow(shrinking_jobs(options_));
    while (shrinker_.busy() && !enough()) {
      shrinker_.wait(0.1);
      take_results();
      tell_progress();
      commit(false);
    }
    tell_unshrunk(stop_shrinking());
  }
  // Returns what still waited.
  std::vector<ShrinkTask> stop_shrinking() {
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
  void end_in_silence() {
    std::vector<ShrinkTask> waiting = stop_shrinking();
    if (!withheld_.empty()) {
      withheld_.front().outcome.presumed = false;
      waiting.push_back(std::move(withheld_.front()));
      summary_.unshrunk += withheld_.size() - 1;
    }
    tell_unshrunk(std::move(waiting));
  }
  // Tells failures that no finding stands for. The first of each kind and condition is its own reproducer, as it was
  // seen: the first that a fresh instance was asked about, if there is one, and none that was presumed. Time is over,
  // so that no call is made for it.
  void tell_unshrunk(std::vector<ShrinkTask> waiting) {
    summary_.unshrunk += waiting.size();
    std::erase_if(waiting, [](const ShrinkTask& task) { return task.outcome.presumed; });
    std::set<std::string> told;
    for (const Finding& finding : summary_.findings) told.insert(to_text(failure_key_of(finding.entry)));
    std::ranges::stable_sort(
        waiting, {}, [](const ShrinkTask& task) { return std::pair(!task.outcome.before.empty(), task.number); });
    std::erase_if(waiting, [&](const ShrinkTask& task) {
      const auto [cause, stands] = cause_of(task);
      return stands || !told.insert(cause).second;
    });
    for (ShrinkTask& task : waiting) {
      ShrinkResult result;
      result.entry = as_seen(task, nullptr);
      result.task = std::move(task);
      merge(std::move(result), false);
    }
  }
  void finish() {
    commit(true);
    count_unshrunk(triage_, summary_);
    std::ranges::stable_sort(summary_.findings, {}, &Finding::case_number);
    tell_defects();
    observer_.on_end(summary_);
    if (unwritten_) std::rethrow_exception(unwritten_);
  }
  // Writes what keeps a finding or the counts. A disk that is full ends the campaign, and what it found is told all the
  // same.
  void kept(const std::function<void()>& write) {
    try {
      write();
    } catch (const Error& error) {
      if (error.exit() != Exit::usage) throw;
      if (!unwritten_) unwritten_ = std::current_exception();
    }
  }
  void tell_defects() {
    // Calls alone have a limit from here on: the work between them costs them nothing.
    const double left = options_.seconds ? std::max(0.0, *options_.seconds + finishing_seconds - elapsed()) : 0;
    const bool asks = !is_lost_ && !summary_.interrupted;
    closing_.emplace(options_.seconds ? left + closing_seconds : std::numeric_limits<double>::infinity(),
                     options_.clock);
    last_call_ = std::numeric_limits<double>::infinity();
    std::map<std::string, std::string> buckets;
    for (const auto& [signature, state] : triage_.states) buckets[signature] = state.bucket;
    Inquiry inquiry(stations_[0], op_, *closing_);
    summary_.defects =
        cluster(summary_.findings, asks ? inquiry.evidences(table_, buckets) : Evidences{table_, buckets});
    KnownQuestions questions;
    if (asks)
      questions = {[&](const Entry& entry) { return inquiry.still_shows(entry); },
                   [&](const Problem& at, const std::string& property) {
                     return inquiry.reproduced(at, property, options_, limits_);
                   },
                   [&](const Entry& at) { return inquiry.calls_of(at); }};
    Known(options_.known, supports_, std::move(questions)).mark(summary_);
    for (const Defect& defect : summary_.defects) note_predicate(defect);
    for (Defect& defect : summary_.defects)
      if (!defect.known && asks) in_time([&] { defect.effective = effective_precision(timed_, summary_, defect); });
    in_time([&] { explain_defects(summary_, stations_[0], limits_, options_); });
    summary_.avoided = avoided(avoidance_, summary_, table_, triage_);
  }
  [[nodiscard]] Timed timed(const SubjectFactory& subject) {
    return {subject, [this] { return no_more_calls(); },
            [this] {
              return options_.seconds ? *options_.seconds + patience_at_the_end - elapsed()
                                      : std::numeric_limits<double>::infinity();
            }};
  }
  // Runs a step, and leaves it out where its calls have no time left.
  void in_time(const std::function<void()>& step) {
    try {
      closing_->spend(step);
    } catch (const OutOfTime&) {
    }
  }
  // The reproducer that stands for a defect says where it shows, so that a later campaign knows it again.
  void note_predicate(const Defect& defect) {
    Finding& finding = summary_.findings[defect.findings.front()];
    if (defect.predicate.atoms.empty() || defect.known) return;
    finding.entry.explained = {defect.key, to_text(defect.predicate), defect.counts};
    if (!finding.reproducer.empty()) kept([&] { write_entry(finding.entry, options_.corpus); });
  }
  [[nodiscard]] double elapsed() const { return options_.clock() - start_; }
  [[nodiscard]] bool interrupted() const { return options_.interrupt && options_.interrupt->load(); }
  // Tells whether no call of a subject may begin, so that the end comes in time whatever its calls cost. The first case
  // of a campaign is asked to its end.
  [[nodiscard]] bool no_more_calls() {
    if (is_lost_) return true;
    if (!has_begun_ || late_asker_ == std::this_thread::get_id()) return false;
    double none = std::numeric_limits<double>::infinity();
    if (interrupted()) interrupted_at_.compare_exchange_strong(none, elapsed());
    return elapsed() >= std::min(last_call_.load(), interrupted_at_ + finishing_seconds) ||
           (closing_ && closing_->is_spent());
  }
  [[nodiscard]] bool out_of_time() const { return options_.seconds && elapsed() >= *options_.seconds; }
  [[nodiscard]] bool over() {
    if (interrupted()) summary_.interrupted = true;
    return summary_.interrupted || unwritten_ || (drawn_ > 0 && out_of_time());
  }
  [[nodiscard]] bool admissible(const Problem& problem) const { return domain_->accepts(problem); }

  void ask(CaseRecord& record) {
    record.begun = true;
    try {
      const std::vector<std::size_t> laws = run_case(record);
      record.done = true;
      if (record.outcome.silent) is_lost_ = true;  // no other case is asked any more
      if (record.outcome.cut_off && record.outcome.key().kind == VerdictKind::timeout) ask_late(record, laws);
    } catch (const OutOfTime&) {  // nothing was seen of it
    } catch (...) {
      record.error = std::current_exception();
    }
    if (record.number == first_) has_begun_ = true;
  }
  // A call that was in flight when time was over, and passed its limit: load may have held it up. It is confirmed after
  // the end, one such case after the other, until one of them is a finding: its calls alone may still begin.
  void ask_late(CaseRecord& record, const std::vector<std::size_t>& laws) {
    record.done = false;
    if (interrupted()) return;
    const std::lock_guard one_by_one(late_guard_);
    if (late_findings_ > 0 || is_lost_) return;
    late_asker_ = std::this_thread::get_id();
    try {
      Bench bench = stations_[static_cast<std::size_t>(omp_get_thread_num())].bench();
      bench.quiet = &quiet_;
      const Quiet::Case running(quiet_);
      const Contract contract = contract_for_problem(info_, options_.policy, record.problem);
      record.outcome = confirm_late(record.problem, contract, bench, laws, std::move(record.outcome));
      record.row = case_row(record.number, record.row.redraws, record.problem, record.outcome, supports_);
      record.finished = elapsed();
      record.done = true;
      late_findings_ += record.outcome.reported.has_value();
      if (record.outcome.silent) is_lost_ = true;
    } catch (...) {
      late_asker_ = std::thread::id();
      throw;
    }
    late_asker_ = std::thread::id();
  }
  // Returns the laws that were asked.
  std::vector<std::size_t> run_case(CaseRecord& record) {
    Bench bench = stations_[static_cast<std::size_t>(omp_get_thread_num())].bench();
    bench.quiet = &quiet_;
    const Quiet::Case running(quiet_);
    const double begin = options_.clock();
    const std::uint64_t plan = record.number / options_.repeat;
    std::shared_lock lock(rules_);
    const bool may_leave = options_.avoid && options_.repeat > 1 && time_ends_it();
    Avoidance::Drawn drawn = avoidance_.draw(*domain_, record.number, options_.repeat, [&](std::uint64_t redraws) {
      return may_leave && ended_by_.is_left(plan, redraws);
    });
    record.problem = std::move(drawn.problem);
    record.rejected = drawn.rejected;
    const double draw = options_.clock() - begin;
    const Contract contract = contract_for_problem(info_, options_.policy, record.problem);
    auto laws =
        choose_laws(options_.laws, record.problem, contract, info_, options_.seed, record.number, options_.repeat);
    record.left_out = avoidance_.leave_out(laws, record.problem, record.number, options_.repeat);
    lock.unlock();
    const auto settled = [&](const CaseOutcome& seen) {  // by findings, which come when they come
      if (!time_ends_it()) return false;
      const FailureKey key = seen.key();
      if (seen.finding()->died() && key.kind != VerdictKind::timeout && seen_deaths_.presumes(key, record.number))
        return true;
      const Row row = row_of(record.problem, info_.supports);
      const std::shared_lock reading(rules_);
      return avoidance_.presumes(key, row, record.number) || ended_by_.is(plan, key);
    };
    record.outcome = check_confirmed(record.problem, contract, bench, laws, settled);
    if (record.outcome.reported && !record.outcome.slow && !record.outcome.cut_off) {
      if (record.outcome.finding()->died()) {
        ended_by_.leave(plan, drawn.redraws);
        latest_death_ = elapsed();
      }
      if (!record.outcome.presumed) note_confirmed(record.outcome, plan);
    }
    record.outcome.seconds.draw += draw;
    record.row = case_row(record.number, drawn.redraws, record.problem, record.outcome, supports_);
    if (something_fails_.load(std::memory_order_relaxed)) (void)record.row.traits.row();  // here, and not under a lock
    record.finished = elapsed();
    record.seconds = options_.clock() - begin;
    return laws;
  }

  // Notes the outcome of a failure for which a sound instance was asked.
  void note_confirmed(const CaseOutcome& outcome, std::uint64_t plan) {
    const FailureKey key = outcome.key();
    if (options_.repeat > 1 && costs_much(outcome) && key.kind != VerdictKind::timeout) ended_by_.note(plan, key);
    if (outcome.culprit || !outcome.after.empty() || key.kind == VerdictKind::flaky)
      seen_deaths_.doubt(key.property);
    else if (outcome.finding()->died())
      seen_deaths_.shown(key);
  }

  // Counts a case, in case order, and handles its failure. False when the campaign ends here.
  bool take(CaseRecord& record, Dispatch& dispatch) {
    if (record.error) rethrow(record);
    if (!record.done) return pass_over(record);
    ++drawn_;
    summary_.add(record.problem, record.outcome);
    summary_.rejected += record.rejected;
    summary_.redrawn += record.row.redraws > 0;
    summary_.laws_left_out += record.left_out;
    summary_.next_case = record.number + 1;
    summary_.seconds = seconds_before_ + elapsed();
    avoidance_.count(record.row);
    if (time_ends_it()) avoidance_.spend(record.row, record.seconds);
    const bool in_question = silence_.add(record.number, record.finished, record.outcome);
    if (!silence_.lasts()) release();
    const bool ends = record.outcome.reported && fail(record, dispatch);
    table_.add(std::move(record.row));
    return !ends && !(in_question && returns_nothing(record));
  }

  // Tells if the subject returns nothing any more: a fresh instance is asked after a case on which it did not. Failures
  // meanwhile wait to be shrunk until something is returned; rows of such cases tell nothing of problems.
  bool returns_nothing(const CaseRecord& record) {
    bool returns = false;
    if (!record.outcome.silent) {
      try {
        Station station(timed_, timed_peer(), options_.subject_b.has_value(), settled_);
        returns = returns_anything(station.bench(), contract_for_problem(info_, options_.policy, record.problem));
      } catch (const OutOfTime&) {
        return false;
      } catch (const Error& error) {
        if (error.exit() != Exit::no_subject) throw;
      }
    }
    if (returns) {
      silence_.broken();
      release();
      return false;
    }
    summary_.silent =
        fmt::format("no call returned from case {} on, nor does a fresh instance return for the smallest problem: {}",
                    silence_.first(), silence_.reason());
    if (const std::string holders = info_.device.empty() ? "" : holders_of_gpus(); !holders.empty())
      summary_.silent += "; GPUs are held by the processes " + holders;
    is_lost_ = silence_.follows_an_answer();  // a failure that follows none may be shrunk
    if (is_lost_) {
      table_.forget_from(silence_.first());
      saved_rows_ = std::min(saved_rows_, table_.rows().size());
    } else {
      release();
    }
    return true;
  }
  void release() {
    for (ShrinkTask& task : std::exchange(withheld_, {})) shrinker_.submit(std::move(task));
  }

  // A case that was not asked to its end. After an interrupt it and what came later is left to whoever resumes; where
  // time is over what came later was asked all the same, and counts; the same holds where nothing returns any more.
  bool pass_over(const CaseRecord& record) {
    if (!is_lost_ && (interrupted() || !out_of_time())) return false;
    summary_.cut_off += record.begun;
    return true;
  }

  [[noreturn]] static void rethrow(const CaseRecord& record) {
    try {
      std::rethrow_exception(record.error);
    } catch (const Error& error) {
      if (error.exit() != Exit::internal) throw;
      throw internal_error(
          fmt::format("attest itself failed on case {}: {}: {}", record.number, error.what(), to_text(record.problem)));
    } catch (const std::exception& error) {
      throw internal_error(
          fmt::format("attest itself failed on case {}: {}: {}", record.number, error.what(), to_text(record.problem)));
    }
  }

  void doubt(const std::string& property, const Row& row) {
    const std::unique_lock lock(rules_);
    avoidance_.doubt(property, row);
  }
  // Handles a failing case. Returns true if it is to end a campaign that ends at its first failure.
  bool fail(CaseRecord& record, Dispatch& dispatch) {
    something_fails_.store(true, std::memory_order_relaxed);
    const FailureKey key = record.outcome.key();
    if (key.kind == VerdictKind::flaky || key.kind == VerdictKind::poisoned) doubt(key.property, record.row.traits);
    const Problem& blamed = record.outcome.blamed(record.problem);
    const AvoidRule* rule = record.outcome.culprit ? nullptr : avoidance_.explanation(key, record.row.traits);
    if (rule && rule->known) {
      count_known(*rule);
      return false;
    }
    const std::string& signature = record.row.signature =
        rule ? to_text(key) + ":" + to_text(*rule) : signature_of(key, blamed);
    // A presumed one for which there is no condition and no plan may be the first of its kind of problem.
    if (record.outcome.presumed && (rule || ended_by_.is(record.number / options_.repeat, key))) {
      ++triage_.states[signature].failures;
      return false;
    }
    if (!triage_.ask(key, signature, avoidance_.understood(key))) return false;
    ShrinkTask task{record.problem, record.outcome, record.number, record.finished, summary_.cases, signature};
    const RawFailure raw{blamed, record.outcome, record.number, record.finished};
    observer_.on_failure(raw);
    if (folder_) kept([&] { folder_->raw_failure(raw, task); });
    submit(std::move(task));
    if (options_.continue_after_failure) return false;
    if (silence_.follows_an_answer() && returns_nothing(record)) return true;
    dispatch.hold();
    shrinker_.hold_deaths(false);
    shrinker_.allow(1);
    while (shrinker_.busy() && !interrupted()) {
      shrinker_.wait(0.1);
      take_results();
    }
    dispatch.go_on();
    return std::ranges::any_of(summary_.findings, [](const Finding& finding) { return !finding.known; });
  }
  void count_known(const AvoidRule& rule) {
    for (const KnownDefect& known : known_defects_) {
      if (known.rule.key != rule.key || known.rule.predicate != rule.predicate) continue;
      Finding* finding = summary_.finding_of(known.entry.bucket);
      if (!finding) {
        finding = &summary_.findings.emplace_back();
        finding->entry = known.entry;
        finding->known = true;
        finding->reproducer = known.file.string();
        finding->case_number = summary_.next_case - 1;
        finding->seconds_to_first = summary_.seconds;
        finding->cases_to_first = summary_.cases;
        finding->failures = 0;
      }
      ++finding->failures;
      return;
    }
  }

  [[nodiscard]] std::optional<std::uint64_t> told_seed() const {
    return options_.seed_kept_back ? std::nullopt : std::optional(options_.seed);
  }
  [[nodiscard]] Entry reproduced(const ShrinkTask& task, Bench bench, const ShrinkBudget& budget,
                                 const std::function<void(const ShrinkStep&)>& accepted) const {
    Entry entry = reproduce({task.problem, task.outcome, told_seed(), task.number}, bench, options_.subject,
                            options_.policy, limits_, budget, accepted);
    name_subjects(options_, entry);
    return entry;
  }
  // Runs on a thread of the shrinker.
  [[nodiscard]] ShrinkResult shrunk(const std::function<Bench()>& bench, ShrinkTask task, const std::atomic<bool>& stop,
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
  [[nodiscard]] ShrinkResult shrunk_in_time(Bench bench, const ShrinkTask& task, const std::atomic<bool>& stop,
                                            const std::function<void(const ShrinkStep&)>& accepted) const {
    ShrinkBudget left = budget(task.outcome.finding()->verdict.kind);
    left.stop = &stop;
    ShrinkResult result;
    const double start = options_.clock();
    result.entry = reproduced(task, bench, left, accepted);
    result.unfinished = !result.entry.minimal && left.seconds && options_.clock() - start >= *left.seconds;
    if (result.entry.seen == VerdictKind::fail && !stop) {  // a death is not asked for once more
      std::vector<std::size_t> laws;
      for (const LawVerdict& law : task.outcome.laws)
        if (law.law == law_named(policy_bound_name, op_) || is_finding(law.verdict.kind)) laws.push_back(law.law);
      for (const LawVerdict& law : check(result.entry.problem, result.entry.contract, bench, laws).laws)
        if (is_finding(law.verdict.kind))
          result.shows.push_back(to_text(engine::key_of(all_laws()[law.law].name, law.verdict)));
    }
    result.task = task;
    return result;
  }
  // The failure as its own reproducer, without a call.
  [[nodiscard]] Entry as_seen(const ShrinkTask& task, const ShrinkStep* better) const {
    const Failure failure{task.problem, task.outcome, told_seed(), task.number};
    Entry entry = as_it_was_seen(
        failure, {options_.subject, options_.policy, info_, options_.subject_b ? &peer_->info() : nullptr}, better);
    name_subjects(options_, entry);
    return entry;
  }
  void take_results() {
    for (const ShrinkProgress& progress : shrinker_.take_progress()) {
      observer_.on_shrink_step(progress.step);
      if (folder_) kept([&] { folder_->better(progress.number, progress.step); });
    }
    std::vector<ShrinkResult> results = shrinker_.take_results();
    for (ShrinkResult& result : results) {
      if (result.error) std::rethrow_exception(result.error);
      summary_.unshrunk += result.unfinished;
      const bool whole = !result.unfinished;
      if (!result.unasked) merge(std::move(result), whole);
    }
    if (!results.empty()) order_shrinking();
  }
  // A reproducer takes its place among the findings; `whole` if nothing is left to be shrunk of it.
  void merge(ShrinkResult result, bool whole) {
    summary_.seconds_in.shrink += result.seconds;
    if (result.task.outcome.presumed && result.entry.seen == VerdictKind::flaky)
      seen_deaths_.doubt(result.entry.property);
    Triage::State& state = triage_.states[result.task.signature];
    ++state.shrunk;
    state.bucket = result.entry.bucket;
    Finding finding;
    finding.entry = std::move(result.entry);
    finding.case_number = result.task.number;
    finding.seconds_to_first = seconds_before_ + result.task.seconds;
    finding.cases_to_first = result.task.cases;
    finding.shows = std::move(result.shows);
    for (const LawVerdict& law : result.task.outcome.laws)
      if (&law != result.task.outcome.finding() && is_finding(law.verdict.kind))
        finding.also.emplace_back(all_laws()[law.law].name);
    finding.known = is_known(known_buckets_, finding.entry.bucket);
    if (whole) replace_as_seen(finding);
    if (folder_ && whole) kept([&] { folder_->shrunk(result.task, finding.entry.bucket); });
    found(std::move(finding));
  }

  // Removes the finding that an earlier run told of the same case as it was seen.
  void replace_as_seen(const Finding& shrunk) {
    std::erase_if(summary_.findings, [&](const Finding& old) {
      if (!old.is_replaced_by(shrunk.case_number, shrunk.entry.bucket)) return false;
      std::error_code ignored;
      if (!old.reproducer.empty()) std::filesystem::remove(old.reproducer, ignored);
      return true;
    });
  }
  // A new bucket, or one more failure of a known one, which the simpler reproducer stands for.
  void found(Finding finding) {
    Finding* old = summary_.finding_of(finding.entry.bucket);
    if (!old) {
      store(finding);
      summary_.findings.push_back(std::move(finding));
      observer_.on_finding(summary_.findings.back(), true);
      return;
    }
    ++old->failures;
    if (finding.case_number < old->case_number) {
      old->case_number = finding.case_number;
      old->seconds_to_first = finding.seconds_to_first;
      old->cases_to_first = finding.cases_to_first;
    }
    if (!simpler(finding.entry, old->entry)) return;
    const std::string previous = old->reproducer;
    old->entry = std::move(finding.entry);
    store(*old);
    if (!previous.empty() && previous != old->reproducer) {
      std::error_code ignored;
      std::filesystem::remove(previous, ignored);
    }
    observer_.on_finding(*old, false);
  }

  void store(Finding& finding) {
    kept([&] {
      if (!options_.corpus.empty() && finding.entry.seen != VerdictKind::flaky)
        finding.reproducer = write_entry(finding.entry, options_.corpus).string();
      if (folder_) folder_->finding(finding);
    });
  }
  [[nodiscard]] ShrinkBudget budget(VerdictKind kind) const {
    ShrinkBudget budget = options_.shrink;
    budget.clock = options_.clock;
    if (options_.seconds) {
      double left = std::max(0.0, *options_.seconds + shrink_grace_seconds - elapsed());
      const double share = costs_much(kind) ? death_share : number_share;
      left = std::min(left, std::max(least_share_seconds, share * *options_.seconds));
      budget.seconds = std::min(budget.seconds.value_or(left), left);
    }
    return budget;
  }

  void tell_progress() {
    Progress progress{summary_.cases, summary_.executed, summary_.failing_cases, elapsed(), {}, {}, &summary_};
    if (options_.seconds) progress.seconds_left = std::max(0.0, *options_.seconds - elapsed());
    if (options_.cases) progress.cases_left = *options_.cases - std::min(*options_.cases, summary_.next_case);
    observer_.on_progress(progress);
  }

  // Every second at first; every ten when the campaign is long and its log with it.
  void commit(bool last) {
    summary_.seconds = seconds_before_ + elapsed();
    const double interval = std::clamp(elapsed() / 100, commit_seconds, longest_commit_seconds);
    if (!folder_ || (!last && elapsed() - committed_ < interval)) return;
    kept([&] {
      folder_->commit(summary_, triage_, avoidance_,
                      {table_.rows().begin() + static_cast<std::ptrdiff_t>(saved_rows_), table_.rows().end()});
    });
    saved_rows_ = table_.rows().size();
    committed_ = elapsed();
  }

  static std::size_t shrinking_jobs(const CampaignOptions& options) {
    return static_cast<std::size_t>(std::max(1, options.jobs / 2));
  }

  [[nodiscard]] const SubjectFactory* timed_peer() const { return timed_peer_ ? timed_peer_.get() : peer_; }

  const SubjectFactory* peer_;
  const CampaignOptions& options_;
  Observer& observer_;
  const SubjectInfo& info_;
  const Op& op_;
  const Timed timed_;                        // the subject
  const std::unique_ptr<Timed> timed_peer_;  // the peer, where it is under test too
  const Supports supports_;
  const std::unique_ptr<const Domain> domain_;
  const std::shared_ptr<Settled> settled_ = std::make_shared<Settled>();
  std::vector<Station> stations_;  // one per thread
  Quiet quiet_;
  Turns turns_;
  std::atomic<double> latest_death_ = -std::numeric_limits<double>::infinity();  // a case died, by elapsed()
  ShrinkLimits limits_;
  Summary summary_;
  Triage triage_;
  CaseTable table_;
  std::size_t saved_rows_ = 0;  // rows of the table that the folder holds
  Avoidance avoidance_;
  const std::vector<KnownDefect> known_defects_ = known_defects(options_.known);
  const std::set<std::string> known_buckets_ = buckets_of(options_.known);
  std::uint64_t boundary_ = 0;  // the case at which rules may change next
  double owed_ = 0;             // seconds that the only job has shrunk longer than it drew
  std::unique_ptr<CampaignFolder> folder_;
  std::uint64_t drawn_ = 0;             // in this run
  std::optional<std::uint64_t> first_;  // case of this run
  double start_ = 0;                    // by the clock
  double seconds_before_ = 0, committed_ = 0, counted_ = 0;
  // Seconds of the campaign from which on no call is begun, and at which somebody wanted it to end.
  std::atomic<double> last_call_ = std::numeric_limits<double>::infinity();
  std::atomic<double> interrupted_at_ = std::numeric_limits<double>::infinity();
  std::optional<Allowance> closing_;     // for the calls that tell defects apart, once all others are over
  std::atomic<bool> has_begun_ = false;  // its first case has been asked
  std::mutex late_guard_;                // guards the two below
  std::atomic<std::thread::id> late_asker_;
  int late_findings_ = 0;  // time-outs that were confirmed after the end
  std::atomic<bool> something_fails_ = false;
  std::shared_mutex rules_;  // guards avoidance_: threads that ask go by it while this one counts
  PlansEnded ended_by_;
  SeenDeaths seen_deaths_;
  Silence silence_{options_.jobs};
  std::atomic<bool> is_lost_ = false;  // a fresh instance was silent: no call is begun any more
  std::vector<ShrinkTask> withheld_;   // failures since the subject last returned anything
  bool drawing_ = true;
  std::vector<ShrinkTask> postponed_;  // until drawing ends
  std::exception_ptr unwritten_;       // the error that kept() met when it wrote
  Shrinker shrinker_;                  // last: its threads use the rest
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
