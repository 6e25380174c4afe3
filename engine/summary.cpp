#include "engine/summary.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "properties/property.hpp"

namespace attest::engine {
namespace {

bool is_guard(std::string_view property) {
  const Law* found = find_law(property);
  return found && found->kind == properties::Kind::guard;
}

// The most frequent reason why a law did not apply, if the laws asked for applied nowhere; empty if one gave any other
// verdict, or if the subject did no call at all.
std::string inapplicable(const std::map<std::string, PropertyCounts>& verdicts) {
  std::string reason;
  std::uint64_t most = 0;
  for (const auto& [property, counts] : verdicts) {
    if (!counts.verdicts.empty() || !counts.vacuous.empty()) return {};
    for (const auto& [why, count] : counts.skipped)
      if (count > most && !why.starts_with(unsupported_prefix)) {
        reason = why;
        most = count;
      }
  }
  return reason;
}

// The most frequent of some reasons.
std::string most_of(const std::map<std::string, std::uint64_t>& reasons) {
  return std::ranges::max_element(reasons, {}, [](const auto& reason) { return reason.second; })->first;
}

// The most frequent reason of a subject that refused a problem at least once.
std::string refusal(const std::map<std::string, PropertyCounts>& verdicts) {
  std::map<std::string, std::uint64_t> said;
  for (const auto& [property, counts] : verdicts)
    for (const auto& [why, count] : counts.skipped)
      if (why.starts_with(unsupported_prefix)) said[why.substr(unsupported_prefix.size())] += count;
  return most_of(said);
}

}  // namespace

std::uint64_t PropertyCounts::of(VerdictKind kind) const {
  const auto found = verdicts.find(kind);
  return found == verdicts.end() ? 0 : found->second;
}

const Finding& Summary::first_of(const Defect& defect) const {
  const auto number = [this](std::size_t at) { return findings[at].case_number; };
  return findings[*std::ranges::min_element(defect.findings, {}, number)];
}

std::set<std::string> Summary::known_as(const Defect& defect) const {
  std::set<std::string> names;
  for (const std::size_t i : defect.findings) names.insert(findings[i].known_as);
  names.erase("");
  return names;
}

Finding* Summary::finding_of(const std::string& bucket) {
  const auto found = std::ranges::find_if(findings, [&](const Finding& f) { return f.entry.bucket == bucket; });
  return found == findings.end() ? nullptr : &*found;
}

void Warned::add(const Warned& more) {
  if (problems == 0 || more.evidence.ratio > evidence.ratio) {
    problem = more.problem;
    evidence = more.evidence;
  }
  problems += more.problems;
}

void Summary::add(const Problem& problem, const CaseOutcome& outcome) {
  ++cases;
  executed += outcome.executed();
  failing_cases += outcome.reported.has_value();
  slow += outcome.slow;
  refused += !outcome.laws.empty() && std::ranges::all_of(outcome.laws, [](const LawVerdict& law) {
    return law.verdict.kind == VerdictKind::skip && law.verdict.reason.starts_with(unsupported_prefix);
  });
  seconds_in += outcome.seconds;
  const bool is_long = problem.op().is_long(problem);
  for (const auto& [law, verdict, call, lost] : outcome.laws) {
    const std::string property(all_laws()[law].name);
    PropertyCounts& counts = verdicts[property];
    if (verdict.kind == VerdictKind::skip)
      ++counts.skipped[verdict.reason];
    else if (verdict.kind == VerdictKind::vacuous)
      ++counts.vacuous[verdict.reason];
    else
      ++counts.verdicts[verdict.kind];
    if (verdict.kind == VerdictKind::warn && verdict.evidence)
      warned[verdict.reason.empty() ? property : verdict.reason].add({1, to_text(problem), *verdict.evidence});
    if (property != policy_bound_name && property != compare_bound_name) continue;
    if (verdict.kind == VerdictKind::skip) ++skipped[verdict.reason];
    if (verdict.kind == VerdictKind::vacuous) ++vacuous[verdict.reason];
    const bool warned = verdict.kind == VerdictKind::warn && verdict.counts.judged > 0;
    if (verdict.kind == VerdictKind::pass || verdict.kind == VerdictKind::fail || warned) {
      ++judged;
      judged_long += is_long;
      elements += verdict.counts.judged;
      elements_long += is_long ? verdict.counts.judged : 0;
    }
    undetermined += verdict.counts.undetermined;
    wide += verdict.counts.wide;
  }
}

std::string Summary::emptiness() const {
  if (cases == 0) return "no problem was drawn: give it more --time or more --cases";
  if (const std::string why = inapplicable(verdicts); !why.empty())
    return "no property applied to any of the problems, mostly because: " + why;
  if (executed == 0 && skipped.size() == 1 && skipped.begin()->first.starts_with(unsupported_prefix))
    return fmt::format("{} does not take {}: {}", subject, cases == 1 ? "this problem" : "any of the problems",
                       skipped.begin()->first.substr(unsupported_prefix.size()));
  if (executed == 0) return "not one call was made whose result could be judged: see what was skipped, and why";
  // --property may ask for guards alone.
  const bool guards_alone = std::ranges::all_of(verdicts, [](const auto& row) { return is_guard(row.first); });
  for (const auto& [property, counts] : verdicts)
    if ((guards_alone || !is_guard(property)) && !counts.verdicts.empty()) return {};
  return "every verdict but the guards' was skip or vacuous: nothing was tested";
}

std::string Summary::unjudged() const {
  if (!silent.empty()) return silent;
  if (std::string empty = emptiness(); !empty.empty()) return empty;
  if (2 * refused > cases)
    return fmt::format(
        "{} refused {} of {} problems, mostly because: {}; let it say what it does not take (`supports`), or leave "
        "that out with --assume",
        subject, refused, cases, refusal(verdicts));
  const bool bound =
      verdicts.contains(std::string(policy_bound_name)) || verdicts.contains(std::string(compare_bound_name));
  if (bound && elements == 0)
    return fmt::format(
        "the bound judged no element of any result{}: see what was skipped or vacuous; --policy says what it promises",
        vacuous.empty() ? "" : ", mostly because: " + most_of(vacuous));
  return {};
}

Exit Summary::exit() const noexcept {
  if (std::ranges::any_of(findings, [](const Finding& finding) { return !finding.known; })) return Exit::found;
  if (interrupted) return Exit::interrupted;
  if (!findings.empty()) return Exit::held;
  return unjudged().empty() ? Exit::held : Exit::incomplete;
}

}  // namespace attest::engine
