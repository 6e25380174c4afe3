#include "engine/campaign/reproducers.hpp"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "core/error.hpp"
#include "engine/corpus.hpp"
#include "engine/failure.hpp"

namespace attest::engine {
namespace {

void remove(const std::string& file) {
  std::error_code ignored;
  if (!file.empty()) std::filesystem::remove(file, ignored);
}

}  // namespace

Reproducers::Reproducers(CampaignState& state)
    : state_(state),
      known_defects_(known_defects(state.options.known)),
      known_buckets_(buckets_of(state.options.known)) {}

std::vector<AvoidRule> Reproducers::known_rules() const {
  std::vector<AvoidRule> rules;
  for (const KnownDefect& known : known_defects_)
    if (&known.entry.problem.op() == &state_.op) rules.push_back(known.rule);
  return rules;
}

void Reproducers::mark_known() {
  for (Finding& finding : state_.summary.findings) finding.known = is_known(known_buckets_, finding.entry.bucket);
}

void Reproducers::merge(ShrinkResult result, bool whole) {
  state_.summary.seconds_in.shrink += result.seconds;
  if (result.task.outcome.presumed && result.entry.seen == VerdictKind::flaky)
    state_.seen_deaths.doubt(result.entry.property);
  Triage::State& counted = state_.triage.states[result.task.signature];
  ++counted.shrunk;
  counted.bucket = result.entry.bucket;
  Finding finding;
  finding.entry = std::move(result.entry);
  finding.case_number = result.task.number;
  finding.seconds_to_first = state_.seconds_before + result.task.seconds;
  finding.cases_to_first = result.task.cases;
  finding.shows = std::move(result.shows);
  for (const LawVerdict& law : result.task.outcome.laws)
    if (&law != result.task.outcome.finding() && is_finding(law.verdict.kind))
      finding.also.emplace_back(all_laws()[law.law].name);
  finding.known = is_known(known_buckets_, finding.entry.bucket);
  if (whole) replace_as_seen(finding);
  if (state_.folder && whole) keep([&] { state_.folder->shrunk(result.task, finding.entry.bucket); });
  add(std::move(finding));
}

// Removes the finding that an earlier run told of the same case as it was seen.
void Reproducers::replace_as_seen(const Finding& shrunk) {
  std::erase_if(state_.summary.findings, [&](const Finding& old) {
    if (!old.is_replaced_by(shrunk.case_number, shrunk.entry.bucket)) return false;
    remove(old.reproducer);
    return true;
  });
}

// A new bucket, or one more failure of one that is there, which the simpler reproducer stands for.
void Reproducers::add(Finding finding) {
  Finding* old = state_.summary.finding_of(finding.entry.bucket);
  if (!old) {
    store(finding);
    state_.summary.findings.push_back(std::move(finding));
    state_.observer.on_finding(state_.summary.findings.back(), true);
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
  if (previous != old->reproducer) remove(previous);
  state_.observer.on_finding(*old, false);
}

void Reproducers::store(Finding& finding) {
  keep([&] {
    if (!state_.options.corpus.empty() && finding.entry.seen != VerdictKind::flaky)
      finding.reproducer = write_entry(finding.entry, state_.options.corpus).string();
    if (state_.folder) state_.folder->finding(finding);
  });
}

void Reproducers::count_known(const AvoidRule& rule) {
  const auto known = std::ranges::find_if(known_defects_, [&](const KnownDefect& defect) {
    return defect.rule.key == rule.key && defect.rule.predicate == rule.predicate;
  });
  if (known == known_defects_.end()) return;
  Finding* finding = state_.summary.finding_of(known->entry.bucket);
  if (!finding) {
    finding = &state_.summary.findings.emplace_back();
    finding->entry = known->entry;
    finding->known = true;
    finding->reproducer = known->file.string();
    finding->case_number = state_.summary.next_case - 1;
    finding->seconds_to_first = state_.summary.seconds;
    finding->cases_to_first = state_.summary.cases;
    finding->failures = 0;
  }
  ++finding->failures;
}

void Reproducers::note_predicate(const Defect& defect) {
  Finding& finding = state_.summary.findings[defect.findings.front()];
  if (defect.predicate.atoms.empty() || defect.known) return;
  finding.entry.explained = {defect.key, to_text(defect.predicate), defect.counts};
  if (!finding.reproducer.empty()) keep([&] { write_entry(finding.entry, state_.options.corpus); });
}

void Reproducers::keep(const std::function<void()>& write) {
  try {
    write();
  } catch (const Error& error) {
    if (error.exit() != Exit::usage) throw;
    if (!unwritten_) unwritten_ = std::current_exception();
  }
}

void Reproducers::require_written() const {
  if (unwritten_) std::rethrow_exception(unwritten_);
}

}  // namespace attest::engine
