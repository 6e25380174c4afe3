#include "engine/replay.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <new>
#include <nlohmann/json.hpp>
#include <utility>

#include "engine/bucket.hpp"
#include "engine/compare.hpp"
#include "engine/instance.hpp"
#include "engine/judge.hpp"
#include "engine/processor.hpp"
#include "engine/sound.hpp"
#include "engine/stream.hpp"
#include "properties/property.hpp"

namespace attest::engine {
namespace {

// Subjects stay open from entry to entry, as in a campaign; a subject that does not start is asked for once.
class Subjects {
 public:
  Subjects(const Resolve& resolve, const Resolve& resolve_b, const SubjectFactory* peer)
      : resolve_(resolve), resolve_b_(resolve_b), peer_(peer) {}

  // nullopt: there is no subject to ask. Throws Error.
  std::optional<Bench> bench(const Entry& entry) {
    std::string key = entry.subject + "\n" + entry.subject_file.string() + "\n" + entry.subject_name +
                      (entry.policy_given ? "\n" + to_text(policy_of(entry.contract)) : "") +
                      (entry.as_probed ? "\n" + to_json(entry.contract).dump() : "");
    if (const auto& b = entry.subject_b) key += "\n" + b->subject + "\n" + b->file.string() + "\n" + b->name;
    Slot& slot = slots_[key];
    if (slot.error) throw *slot.error;
    try {
      if (!slot.station) {
        slot.factory = resolve_(entry);
        if (!slot.factory) return std::nullopt;
        if (entry.subject_b) put_beside(entry, slot);
        slot.station.emplace(*slot.factory, slot.factory_b ? slot.factory_b.get() : peer_, entry.subject_b.has_value());
      }
      return slot.station->bench();
    } catch (const Error& error) {
      slot.error = error;
      throw;
    }
  }

 private:
  struct Slot {
    std::unique_ptr<SubjectFactory> factory, factory_b;
    std::optional<Station> station;
    std::optional<Error> error;
  };
  void put_beside(const Entry& entry, Slot& slot) const {
    if (!resolve_b_) throw Error(Exit::no_subject, "the entry is of two subjects, and one alone can be started here");
    const std::optional<Policy> policy = entry.policy_given ? std::optional(policy_of(entry.contract)) : std::nullopt;
    Compared both = compared(entry.problem.op(), std::move(slot.factory), resolve_b_(entry), policy);
    slot.factory = std::move(both.a);
    slot.factory_b = std::move(both.b);
  }
  const Resolve &resolve_, &resolve_b_;
  const SubjectFactory* peer_;
  std::map<std::string, Slot> slots_;
};

std::vector<std::size_t> laws_named(std::span<const std::string> names, const Op& op) {
  std::vector<std::size_t> laws;
  for (const std::string& name : names) laws.push_back(law_named(name, op));
  std::ranges::sort(laws);
  return laws;
}

void judge_expected_failure(const Entry& entry, const Policy& policy, const Verdict& verdict, ReplayResult& result) {
  if (!is_finding(verdict.kind)) {
    const bool passed = verdict.kind == VerdictKind::pass || verdict.kind == VerdictKind::warn;
    const std::string missing = lacking(entry.processor, processor());
    result.outcome = !passed ? Replayed::unexpected : missing.empty() ? Replayed::mended : Replayed::not_here;
    result.sentence =
        !passed ? "expected to fail, and is " + std::string(name(verdict.kind)) + ": " + verdict.reason
        : !entry.refiled.empty()
            ? fmt::format(
                  "its law, {}, is gone, and ensemble-error, which took its place, only warns: delete the entry",
                  entry.refiled)
        : missing.empty()
            ? "expected to fail and now passes: mended; make it an entry that expects `pass`"
            : fmt::format(
                  "passes here, and was seen on a processor with {}, which this one lacks: replay it on such a one",
                  missing);
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

// The damage that the call of an entry does to a fresh instance.
Verdict poison_verdict(const Entry& entry, const Problem& problem, Bench bench, const Contract& contract) {
  ailment(bench, contract);  // a fresh instance chooses the canary
  if (!renew(bench)) return Verdict::skip("this subject cannot be started again");
  std::vector<Asked> calls = calls_before(entry);
  calls.push_back({problem, laws_named(entry.with, problem.op())});
  repeat_calls(calls, bench, contract);
  const std::optional<Ailment> ill = ailment(bench, contract);
  return ill ? ill->poison() : Verdict::pass();
}

// The entry's own calls, as the instance stands.
Verdict verdict_now(const Entry& entry, const Problem& problem, Bench bench, const Contract& contract) {
  const CaseOutcome outcome = check(problem, contract, bench, laws_of(entry));
  const auto own = std::ranges::find(outcome.laws, law_named(entry.property, problem.op()), &LawVerdict::law);
  // A call that does not return is the finding of the first law that ran, whichever it was.
  if (const LawVerdict* finding = outcome.finding(); finding && !is_finding(own->verdict.kind)) return finding->verdict;
  return own->verdict;
}

void judge_entry(const Entry& entry, const Policy& policy, const Verdict& verdict, ReplayResult& result) {
  result.verdict = verdict;
  if (verdict.kind == VerdictKind::skip && verdict.reason.starts_with(unsupported_prefix)) {
    result.outcome = Replayed::unsupported;
    result.sentence = "not run: " + verdict.reason.substr(unsupported_prefix.size());
  } else if (entry.expect == VerdictKind::fail)
    judge_expected_failure(entry, policy, verdict, result);
  else
    judge_expected_pass(entry, policy, verdict, result);
}

// Nothing that a fresh instance could say would be heard.
bool settled(const ReplayResult& result) {
  return result.outcome == Replayed::as_expected || result.outcome == Replayed::unsupported;
}

// Before it is said that an entry is mended: one that shows every other time, and was by chance seen each time, is
// missed once in 500.
constexpr int least_replays = 8, most_replays = 200;

// The number of runs of an entry that does not always show: a failure that shows as often as it did is missed once in a
// thousand times.
int tries_of(const Entry& entry) {
  if (entry.expect != VerdictKind::fail) return 1;
  if (!entry.shown) return least_replays;
  return std::min(most_replays, 1 + 7 * entry.shown->runs / entry.shown->seen);
}

// Entries that follow each other share an instance while it is sound; an unexpected result counts if a fresh one gives
// it.
void run_entry(const Entry& entry, Bench bench, ReplayResult& result) {
  const std::optional<Policy> policy = entry.policy_given ? std::optional(policy_of(entry.contract)) : std::nullopt;
  const Problem& problem = entry.problem;
  const Contract contract = contract_for_problem(bench.subject.info(), policy, problem);
  if (entry.seen == VerdictKind::poisoned) {
    judge_entry(entry, policy_of(contract), poison_verdict(entry, problem, bench, contract), result);
    renew(bench);
    return;
  }
  if (entry.after.empty()) {
    judge_entry(entry, policy_of(contract), verdict_now(entry, problem, bench, contract), result);
    const bool sound = !is_finding(result.verdict->kind) || !ailment(bench, contract);
    if (sound && settled(result)) return;
  }
  if (!renew(bench) && !entry.after.empty()) {
    result.sentence = "needs an instance that was asked nothing before, and this subject cannot be started again";
    return;
  }
  if (settled(result)) return;
  const int tries = tries_of(entry);
  for (int i = 0; i < tries && !settled(result); ++i) {
    if (i > 0 && !entry.after.empty()) renew(bench);
    repeat_calls(calls_before(entry), bench, contract);
    judge_entry(entry, policy_of(contract), verdict_now(entry, problem, bench, contract), result);
  }
  if (entry.shown && result.outcome == Replayed::mended) {
    result.outcome = Replayed::unexpected;
    result.sentence = "was seen in " + std::to_string(entry.shown->seen) + " of " + std::to_string(entry.shown->runs) +
                      " runs, and in none of " + std::to_string(tries + 1) + " now: answers differ from call to call";
  }
  if (!entry.after.empty() || is_finding(result.verdict->kind)) renew(bench);
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
    if (const std::optional<Bench> bench = subjects.bench(*result.entry))
      run_entry(*result.entry, *bench, result);
    else
      judge_entry(*result.entry, policy_of(result.entry->contract), judged_again(*result.entry), result);
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

std::vector<std::size_t> laws_of(const Entry& entry) {
  const Op& op = entry.problem.op();
  const std::size_t own = law_named(entry.property, op);
  std::vector<std::size_t> laws = laws_named(entry.with, op);
  laws.insert(std::ranges::lower_bound(laws, own), own);
  return laws;
}

std::vector<Asked> calls_before(const Entry& entry) {
  std::vector<Asked> calls;
  for (const EarlierCall& call : entry.after) calls.push_back({call.problem, laws_named(call.laws, call.problem.op())});
  return calls;
}

std::string_view name(Replayed outcome) noexcept {
  constexpr std::array<std::string_view, 7> names{"as_expected", "unexpected",  "mended", "not_here",
                                                  "damaged",     "unsupported", "not_run"};
  return names[static_cast<std::size_t>(outcome)];
}

Exit ReplayReport::exit(bool allow_missing) const noexcept {
  if (unexpected > 0 || mended > 0) return Exit::found;
  if (damaged > 0 || entries == 0) return Exit::usage;
  const bool nothing_ran = unsupported + not_here == entries;
  return (not_run > 0 || nothing_ran) && !allow_missing ? Exit::no_subject : Exit::held;
}

ReplayReport replay(const std::vector<std::filesystem::path>& paths, const Resolve& resolve, const SubjectFactory* peer,
                    const std::function<void(const ReplayResult&)>& told, bool expect_pass, const Resolve& resolve_b) {
  Subjects subjects(resolve, resolve_b, peer);
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
      case Replayed::not_here:
        ++report.not_here;
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
