#pragma once
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/subject.hpp"
#include "engine/check.hpp"
#include "engine/known.hpp"
#include "engine/ops.hpp"
#include "engine/probe/first.hpp"
#include "engine/shrink/shrink.hpp"
#include "engine/stream.hpp"
#include "engine/summary.hpp"
#include "engine/timed.hpp"

namespace attest::engine {

struct CampaignOptions {
  std::string verb = "fuzz";
  std::string subject;                 // as on the command line
  std::filesystem::path subject_file;  // the absolute path of the file that holds it, and
  std::string subject_name;            // its name there; empty for what attest brings along
  // The second of two subjects, which is the campaign's peer, named as the first is. Its laws are those of
  // LawChoice::Compare.
  struct Second {
    std::string subject;
    std::filesystem::path file;
    std::string name;
  };
  std::optional<Second> subject_b;
  std::uint64_t seed = 1;
  bool seed_kept_back = false;         // no file says it while the subject runs, but by its digest
  std::optional<std::uint64_t> cases;  // problems of the whole stream; a shard draws its share of them
  std::optional<double> seconds;       // neither: until interrupted
  int jobs = 1;
  LawChoice laws;
  const Op* op = nullptr;        // under test; nullptr: the first that the subject offers
  std::optional<Policy> policy;  // fixes the dtype to its storage format
  std::string policy_text;       // as given
  // The observations that a subject that declares no policy is held to, and whence they are: "in 2.1 s, kept in FILE".
  std::optional<Observed> observed;
  std::string observed_whence;
  std::optional<Assumption> assume;
  SizeRegime sizes = SizeRegime::both;     // the choice between small shapes and those of models
  std::vector<KnownEntry> known;  // failures that are counted and do not fail the run (known.hpp)
  bool avoid = true;  // draw outside what is understood (avoid.hpp)
  ShrinkBudget shrink;
  bool continue_after_failure = true;
  Shard shard;
  std::uint64_t repeat = 1;                      // r: how many cases keep one shape
  std::filesystem::path folder;                  // campaign folder, resumed if it holds the same campaign; empty: none
  std::filesystem::path corpus;                  // where reproducers go; empty: none is written
  const std::atomic<bool>* interrupt = nullptr;  // set by a signal handler: ends after the cases in flight
  Clock clock = machine_seconds;                 // by which the campaign's time is told
};

// The operation under test. Throws Error(usage) if the subject does not offer it.
const Op& op_of(const CampaignOptions& options, const SubjectInfo& info);

// The summary of a campaign before anything is drawn. `peer`: the second of two subjects.
Summary begun(const CampaignOptions& options, const SubjectInfo& info, const SubjectInfo& peer);

// Puts the names of the campaign's subjects, and the files that hold them, into an entry that reproduce() made.
void name_subjects(const CampaignOptions& options, Entry& entry);

struct Progress {
  std::uint64_t cases = 0, executed = 0, failing_cases = 0;
  double seconds = 0;                  // since this run began
  std::optional<double> seconds_left;  // under a time limit
  std::optional<std::uint64_t> cases_left;
  const Summary* summary = nullptr;
};

struct RawFailure {
  const Problem& problem;
  const CaseOutcome& outcome;
  std::uint64_t case_number;
  double seconds;
};

// Receives the events of a campaign while they happen, in case order and from the campaign's own thread.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void on_start(const CampaignOptions&, const SubjectInfo&) {}
  virtual void on_progress(const Progress&) {}
  // Before shrinking starts. Failures that are only counted are not told.
  virtual void on_failure(const RawFailure&) {}
  virtual void on_shrink_step(const ShrinkStep&) {}
  // A bucket's first finding, and again when a simpler reproducer takes its place.
  virtual void on_finding(const Finding&, bool first) { (void)first; }
  virtual void on_end(const Summary&) {}
};

inline constexpr double finishing_seconds = 2, closing_seconds = 2;

// Draws, checks, shrinks, buckets and stores until the limits of `options`. Verdicts, findings and witnesses depend on
// the options alone, not on `jobs`, for a subject that keeps no state and where no time limit cuts in: case numbers
// decide which failures are shrunk and which problems are avoided, and shrinking goes on beside the stream without a
// say in it. `peer` may be null.
// Where a time limit is set, or after an interrupt, no call of a subject is begun `finishing_seconds` later, but for
// those that tell defects apart: these may take `closing_seconds` more in all. Failures that were not shrunk by then
// are told as they were seen.
// Throws Error(usage) for a folder that holds another campaign, naming the difference; Error(no_subject) if the subject
// does not start; Error(internal) if attest itself fails.
Summary run_campaign(const SubjectFactory& subject, const SubjectFactory* peer, const CampaignOptions& options,
                     Observer& observer);

// One problem, as given, instead of a stream of them; shrunk and stored only under `options.corpus`. Throws as
// run_campaign() does.
Summary run_problem(const Problem& problem, const SubjectFactory& subject, const SubjectFactory& peer,
                    const CampaignOptions& options);

}  // namespace attest::engine
