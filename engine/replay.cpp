#include "engine/replay.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <new>

#include "engine/bucket.hpp"
#include "engine/stream.hpp"
#include "properties/property.hpp"

namespace attest::engine {
namespace {

// Subjects stay open from entry to entry, as in a campaign; a subject that does not start is asked for once.
class Subjects {
 public:
  Subjects(const Resolve& resolve, const SubjectFactory* peer, const oracle::Calibration* calibration)
      : resolve_(resolve), calibration_(calibration) {
    if (peer) peer_ = peer->open();
  }

  // Throws Error.
  Bench bench(const Entry& entry) { return {of(entry), peer_.get(), calibration_}; }

 private:
  Subject& of(const Entry& entry) {
    const std::string key = entry.subject + (entry.policy_given ? "\n" + to_text(entry.contract.policy) : "");
    Slot& slot = slots_[key];
    if (slot.error) throw *slot.error;
    if (slot.subject) return *slot.subject;
    try {
      slot.factory = resolve_(entry);
      slot.subject = slot.factory->open();
    } catch (const Error& error) {
      slot.error = error;
      throw;
    }
    return *slot.subject;
  }

  struct Slot {
    std::unique_ptr<SubjectFactory> factory;
    std::unique_ptr<Subject> subject;
    std::optional<Error> error;
  };
  const Resolve& resolve_;
  const oracle::Calibration* calibration_;
  std::unique_ptr<Subject> peer_;
  std::map<std::string, Slot> slots_;
};

std::vector<std::size_t> laws_of(const Entry& entry) {
  std::vector<std::size_t> laws{law_named(entry.property)};
  for (const std::string& name : entry.with) laws.push_back(law_named(name));
  std::ranges::sort(laws);
  return laws;
}

void judge_expected_failure(const Entry& entry, const Policy& policy, const Verdict& verdict, ReplayResult& result) {
  if (!is_finding(verdict.kind)) {
    const bool passed = verdict.kind == VerdictKind::pass || verdict.kind == VerdictKind::warn;
    result.outcome = passed ? Replayed::mended : Replayed::unexpected;
    result.sentence = passed ? "expected to fail and now passes: mended; make it an entry that expects `pass`"
                             : "expected to fail, and is " + std::string(name(verdict.kind)) + ": " + verdict.reason;
    return;
  }
  result.bucket = bucket_of(key_of(entry.property, verdict), entry.subject, policy, entry.problem);
  const bool same = result.bucket == entry.bucket;
  result.outcome = same ? Replayed::as_expected : Replayed::unexpected;
  result.sentence = same ? "fails as expected" : "fails otherwise than expected, as " + result.bucket;
}

void judge_expected_pass(const Entry& entry, const Policy& policy, const Verdict& verdict, ReplayResult& result) {
  const bool passed = verdict.kind == VerdictKind::pass || verdict.kind == VerdictKind::warn;
  result.outcome = passed ? Replayed::as_expected : Replayed::unexpected;
  if (is_finding(verdict.kind)) {
    result.bucket = bucket_of(key_of(entry.property, verdict), entry.subject, policy, entry.problem);
    result.sentence = "expected to pass, and fails as " + result.bucket;
  } else {
    result.sentence = passed ? "passes as expected"
                             : "expected to pass, and is " + std::string(name(verdict.kind)) + ": " + verdict.reason;
  }
}

void run_entry(const Entry& entry, Bench bench, ReplayResult& result) {
  const std::vector<std::size_t> laws = laws_of(entry);
  const std::optional<Policy> policy = entry.policy_given ? std::optional(entry.contract.policy) : std::nullopt;
  const Contract contract = contract_for_problem(bench.subject.info(), policy, entry.problem);
  const CaseOutcome outcome = check(entry.problem, contract, bench, laws);
  for (const LawVerdict& law : outcome.laws)
    if (law.law == law_named(entry.property)) result.verdict = law.verdict;
  // A call that does not return is the finding of the first law that ran, whichever it was.
  if (const LawVerdict* finding = outcome.finding(); finding && !is_finding(result.verdict->kind))
    result.verdict = finding->verdict;
  if (result.verdict->kind == VerdictKind::skip && result.verdict->reason.starts_with(unsupported_prefix)) {
    result.outcome = Replayed::unsupported;
    result.sentence = "not run: " + result.verdict->reason.substr(unsupported_prefix.size());
  } else if (entry.expect == VerdictKind::fail)
    judge_expected_failure(entry, contract.policy, *result.verdict, result);
  else
    judge_expected_pass(entry, contract.policy, *result.verdict, result);
}

ReplayResult replay_one(const std::filesystem::path& file, Subjects& subjects, bool expect_pass) {
  ReplayResult result;
  result.file = file;
  try {
    result.entry = read_entry(file);
  } catch (const Error& error) {
    result.outcome = Replayed::damaged;
    result.sentence = error.what();
    return result;
  }
  if (expect_pass) result.entry->expect = VerdictKind::pass;
  try {
    run_entry(*result.entry, subjects.bench(*result.entry), result);
  } catch (const Error& error) {
    if (error.exit() == Exit::internal) throw;
    result.outcome = Replayed::not_run;
    result.sentence = error.what();
  } catch (const std::bad_alloc&) {
    result.outcome = Replayed::not_run;
    result.sentence = "there is not enough memory for its problem here";
  }
  return result;
}

}  // namespace

std::string_view name(Replayed outcome) noexcept {
  constexpr std::array<std::string_view, 6> names{"as_expected", "unexpected",  "mended",
                                                  "damaged",     "unsupported", "not_run"};
  return names[static_cast<std::size_t>(outcome)];
}

Exit ReplayReport::exit(bool allow_missing) const noexcept {
  if (unexpected > 0 || mended > 0) return Exit::found;
  if (damaged > 0 || entries == 0) return Exit::usage;
  const bool nothing_ran = unsupported == entries;
  return (not_run > 0 || nothing_ran) && !allow_missing ? Exit::no_subject : Exit::held;
}

ReplayReport replay(const std::vector<std::filesystem::path>& paths, const Resolve& resolve, const SubjectFactory* peer,
                    const std::function<void(const ReplayResult&)>& told, bool expect_pass,
                    const oracle::Calibration* calibration) {
  Subjects subjects(resolve, peer, calibration);
  ReplayReport report;
  for (const std::filesystem::path& file : corpus_files(paths)) {
    const ReplayResult result = replay_one(file, subjects, expect_pass);
    ++report.entries;
    switch (result.outcome) {
      case Replayed::as_expected:
        ++report.as_expected;
        break;
      case Replayed::unexpected:
        ++report.unexpected;
        break;
      case Replayed::mended:
        ++report.mended;
        break;
      case Replayed::damaged:
        ++report.damaged;
        break;
      case Replayed::unsupported:
        ++report.unsupported;
        break;
      case Replayed::not_run:
        ++report.not_run;
        break;
    }
    if (told) told(result);
  }
  return report;
}

}  // namespace attest::engine
