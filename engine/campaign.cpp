#include "engine/campaign.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <memory>
#include <vector>

#include <omp.h>

#include "core/error.hpp"
#include "engine/bucket.hpp"
#include "engine/campaign_folder.hpp"
#include "engine/failure.hpp"
#include "engine/file.hpp"
#include "engine/triage.hpp"
#include "generators/draw.hpp"
#include "properties/property.hpp"

namespace attest::engine {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double block_seconds = 0.2;  // a block long enough to keep all threads busy, short enough to show progress
constexpr std::size_t largest_block = 8192;
constexpr double shrink_grace_seconds = 3;                         // what --time may be passed by to finish a shrink
constexpr double commit_seconds = 1, longest_commit_seconds = 10;  // what a kill may lose

// One case of a block.
struct Record {
  std::uint64_t number = 0;
  bool done = false;
  Problem problem;
  CaseOutcome outcome;
  std::uint64_t rejected = 0;
  double finished = 0;  // seconds since the campaign's start
  std::exception_ptr error;
};

// The subject and its peer of one thread, started on first use.
class Station {
 public:
  Bench bench(const SubjectFactory& subject, const SubjectFactory* peer, const CampaignOptions& options) {
    if (!subject_) subject_ = subject.open();
    if (!peer_ && peer) peer_ = peer->open();
    return {*subject_, peer_.get(), options.calibration.get()};
  }

 private:
  std::unique_ptr<Subject> subject_, peer_;
};

class Campaign {
 public:
  Campaign(const SubjectFactory& subject, const SubjectFactory* peer, const CampaignOptions& options,
           Observer& observer)
      : subject_(subject),
        peer_(peer),
        options_(options),
        observer_(observer),
        info_(subject.info()),
        domain_(domain_for(info_, options.policy, options.assume)),
        stations_(static_cast<std::size_t>(options.jobs)) {
    limits_ = {info_.supports, domain_.dtypes(), [this](const Problem& problem) { return admissible(problem); }};
    summary_.verb = options.verb;
    summary_.subject = options.subject;
    summary_.subject_version = info_.version;
    summary_.policy = options.policy_text;
    summary_.policy_declared = options.policy || info_.policy_declared;
    summary_.seed = options.seed;
    if (options.assume) {
      summary_.assume = options.assume->text();
      summary_.given_up = given_up(info_, options.policy, *options.assume);
    }
    if (options.shard.count > 1) summary_.shard = fmt::format("{}/{}", options.shard.index, options.shard.count);
  }

  Summary run() {
    stations_[0].bench(subject_, peer_, options_);
    if (!options_.folder.empty()) folder_ = std::make_unique<CampaignFolder>(options_, info_, summary_, triage_);
    if (!options_.corpus.empty()) require_writable(options_.corpus);
    for (Finding& finding : summary_.findings) finding.known = options_.known.contains(finding.entry.bucket);
    start_ = Clock::now();
    seconds_before_ = summary_.seconds;
    observer_.on_start(options_, info_);
    try {
      draw_until_over();
    } catch (...) {  // nothing that was found is lost
      finish();
      throw;
    }
    finish();
    return std::move(summary_);
  }

 private:
  void draw_until_over() {
    while (!over()) {
      std::vector<Record> block = next_block();
      if (block.empty()) break;
      run_block(block);
      const bool go_on = take(block);
      tell_progress();
      commit(false);
      if (!go_on) break;
    }
  }
  void finish() {
    commit(true);
    find_drift();  // after the commit: it is told from the counts, each time anew
    observer_.on_end(summary_);
  }
  void find_drift() {
    for (const auto& [policy, drift] : summary_.drift) {
      std::optional<Evidence> evidence = drift.evidence();
      if (!evidence) continue;
      Finding finding;
      finding.entry.subject = portable_subject(options_.subject);
      finding.entry.property = drift_name;
      finding.entry.problem = problem_from_text(drift.problem);
      finding.entry.evidence = std::move(evidence);
      finding.entry.bucket = fmt::format("{}/fail/finite:{}:{}", drift_name, finding.entry.subject, policy);
      finding.entry.original = drift.problem;
      finding.failures = static_cast<std::uint64_t>(drift.above);
      finding.case_number = summary_.next_case;
      finding.cases_to_first = summary_.cases;
      finding.seconds_to_first = summary_.seconds;
      finding.known = options_.known.contains(finding.entry.bucket);
      summary_.findings.push_back(std::move(finding));
      observer_.on_finding(summary_.findings.back(), true);
    }
  }
  [[nodiscard]] double elapsed() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }
  [[nodiscard]] bool interrupted() const { return options_.interrupt && options_.interrupt->load(); }
  [[nodiscard]] bool out_of_time() const { return options_.seconds && elapsed() >= *options_.seconds; }
  [[nodiscard]] bool over() {
    if (interrupted()) summary_.interrupted = true;
    return summary_.interrupted || (drawn_ > 0 && out_of_time());
  }
  [[nodiscard]] bool admissible(const Problem& problem) const { return domain_.accepts(problem); }

  std::vector<Record> next_block() {
    std::vector<Record> block;
    std::uint64_t number = summary_.next_case;
    while (block.size() < block_size_) {
      number = options_.shard.next(number, options_.repeat);
      if (options_.cases && number >= *options_.cases) break;
      block.emplace_back().number = number++;
    }
    return block;
  }

  // Every case by itself, on whichever thread is free; nothing here depends on which.
  void run_block(std::vector<Record>& block) {
    const auto begin = Clock::now();
    const auto count = static_cast<std::int64_t>(block.size());
    const bool nothing_yet = drawn_ == 0;
#pragma omp parallel for schedule(dynamic, 1) num_threads(options_.jobs)
    for (std::int64_t i = 0; i < count; ++i) {
      if ((i > 0 || !nothing_yet) && (out_of_time() || interrupted())) continue;
      Record& record = block[static_cast<std::size_t>(i)];
      try {
        run_case(record);
        record.done = true;
      } catch (...) {
        record.error = std::current_exception();
      }
    }
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    if (seconds < block_seconds / 2) block_size_ = std::min(block_size_ * 2, largest_block);
    if (seconds > block_seconds * 2) block_size_ = std::max(block_size_ / 2, stations_.size());
  }

  void run_case(Record& record) {
    const Bench bench = stations_[static_cast<std::size_t>(omp_get_thread_num())].bench(subject_, peer_, options_);
    const auto begin = Clock::now();
    const std::uint64_t rejected_before = rejected_draws();
    record.problem = draw_problem(domain_, options_.seed, record.number, options_.repeat);
    record.rejected = rejected_draws() - rejected_before;
    const double draw = std::chrono::duration<double>(Clock::now() - begin).count();
    const Contract contract = contract_for_problem(info_, options_.policy, record.problem);
    const auto laws = choose_laws(options_.laws, record.problem, contract, info_, options_.seed, record.number);
    record.outcome = check_confirmed(record.problem, contract, bench, laws);
    record.outcome.seconds.draw += draw;
    record.finished = elapsed();
  }

  // In case order: counts, and what becomes of failures. False when the campaign ends here.
  bool take(std::vector<Record>& block) {
    for (Record& record : block) {
      if (record.error) rethrow(record);
      if (!record.done) return true;  // time ran out before it: later cases of the block are dropped
      ++drawn_;
      summary_.add(record.problem, record.outcome);
      summary_.rejected += record.rejected;
      summary_.next_case = record.number + 1;
      summary_.seconds = seconds_before_ + elapsed();
      if (record.outcome.reported && fail(record) && !options_.continue_after_failure) return false;
    }
    return true;
  }

  [[noreturn]] static void rethrow(const Record& record) {
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

  // What becomes of a failing case. True if it fails the run.
  bool fail(const Record& record) {
    const FailureKey key = record.outcome.key();
    const std::string signature = signature_of(key, record.problem);
    const ShrinkBudget left = budget();
    std::string counted = triage_.ask(signature);
    if (left.seconds && *left.seconds <= 0 && counted.empty()) counted = triage_.states[signature].bucket;
    if (Finding* known = finding_of(counted)) {
      ++known->failures;
      return !known->known;
    }
    const RawFailure raw{record.problem, record.outcome, record.number, record.finished};
    observer_.on_failure(raw);
    if (folder_) folder_->raw_failure(raw, to_text(key));
    Finding finding;
    finding.entry = reproduced(record, left);
    finding.case_number = record.number;
    finding.seconds_to_first = seconds_before_ + record.finished;
    finding.cases_to_first = summary_.cases;
    for (const LawVerdict& law : record.outcome.laws)
      if (&law != record.outcome.finding() && is_finding(law.verdict.kind))
        finding.also.emplace_back(properties::properties()[law.law].name);
    finding.known = options_.known.contains(finding.entry.bucket);
    triage_.learn(signature, finding.entry.bucket);
    const bool fails = !finding.known;
    found(std::move(finding));
    return fails;
  }

  Entry reproduced(const Record& record, const ShrinkBudget& budget) {
    const auto begin = Clock::now();
    const auto accepted = [&](const ShrinkStep& step) {
      observer_.on_shrink_step(step);
      if (folder_) folder_->better(record.number, step);
    };
    Entry entry = reproduce({record.problem, record.outcome, options_.seed, record.number},
                            stations_[0].bench(subject_, peer_, options_), options_.subject, options_.policy, limits_,
                            budget, accepted);
    summary_.seconds_in.shrink += std::chrono::duration<double>(Clock::now() - begin).count();
    return entry;
  }

  // A new bucket, or one more failure of a known one, which the simpler reproducer stands for.
  void found(Finding finding) {
    Finding* old = finding_of(finding.entry.bucket);
    if (!old) {
      store(finding);
      summary_.findings.push_back(std::move(finding));
      observer_.on_finding(summary_.findings.back(), true);
      return;
    }
    ++old->failures;
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

  Finding* finding_of(const std::string& bucket) {
    const auto found =
        std::ranges::find_if(summary_.findings, [&](const Finding& f) { return f.entry.bucket == bucket; });
    return found == summary_.findings.end() ? nullptr : &*found;
  }
  void store(Finding& finding) {
    if (!options_.corpus.empty() && finding.entry.seen != VerdictKind::flaky)
      finding.reproducer = write_entry(finding.entry, options_.corpus).string();
    if (folder_) folder_->finding(finding);
  }
  [[nodiscard]] ShrinkBudget budget() const {
    ShrinkBudget budget = options_.shrink;
    if (options_.seconds) {
      const double left = std::max(0.0, *options_.seconds + shrink_grace_seconds - elapsed());
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
    folder_->commit(summary_, triage_);
    committed_ = elapsed();
  }

  const SubjectFactory& subject_;
  const SubjectFactory* peer_;
  const CampaignOptions& options_;
  Observer& observer_;
  const SubjectInfo& info_;
  const Domain domain_;
  std::vector<Station> stations_;  // one per thread; the first also shrinks
  ShrinkLimits limits_;
  Summary summary_;
  Triage triage_;
  std::unique_ptr<CampaignFolder> folder_;
  std::size_t block_size_ = 4 * stations_.size();
  std::uint64_t drawn_ = 0;  // in this run
  Clock::time_point start_;
  double seconds_before_ = 0, committed_ = 0;
};

}  // namespace

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
