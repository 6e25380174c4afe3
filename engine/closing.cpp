#include "engine/closing.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace attest::engine {

void count_unshrunk(const Triage& triage, Summary& summary) {
  for (const auto& [signature, state] : triage.states) {
    Finding* finding = summary.finding_of(state.bucket);
    if (!finding) {
      const auto same = std::ranges::find_if(summary.findings, [&of = signature](const Finding& f) {
        return of.find(to_text(failure_key_of(f.entry))) != std::string::npos;
      });
      if (same == summary.findings.end()) continue;
      finding = &*same;
    }
    finding->failures += state.failures - std::min(state.failures, state.shrunk);
  }
}

void explain_defects(Summary& summary, Station& station, const ShrinkLimits& shrinking,
                     const CampaignOptions& options) {
  constexpr std::size_t most_explained = 8;  // as many as a report tells of
  constexpr double most_seconds = 3;         // in all, under a time limit
  if (summary.interrupted || options.subject_b) return;
  std::size_t told = 0;
  double spent = 0;
  for (Defect& defect : summary.defects) {
    const Entry& entry = summary.findings[defect.findings.front()].entry;
    if (defect.known || entry.seen != VerdictKind::fail || entry.shown) continue;
    if (told++ == most_explained || spent > most_seconds) break;
    const std::optional<double> seconds = options.seconds ? std::optional(1.0) : std::nullopt;
    Explanation explanation = explain(entry, station.bench(), shrinking, limits_in_a_report(seconds));
    spent += options.seconds ? explanation.seconds : 0;
    if (explanation.fails) defect.explanation = std::move(explanation);
  }
}

std::vector<Avoided> avoided(const Avoidance& avoidance, const Summary& summary, const CaseTable& table,
                             const Triage& triage) {
  std::map<std::string, std::size_t> defect_of;  // by bucket
  for (std::size_t d = 0; d < summary.defects.size(); ++d)
    for (const std::size_t finding : summary.defects[d].findings)
      defect_of[summary.findings[finding].entry.bucket] = d + 1;
  const auto explained = [&](const AvoidRule& rule) {
    std::vector<std::uint64_t> failures(summary.defects.size() + 1);
    for (const CaseRow& row : table.rows()) {
      const auto state = triage.states.find(row.signature);
      if (state == triage.states.end() || !row.fails(rule.key) || !rule.predicate.holds(row.traits)) continue;
      if (const auto defect = defect_of.find(state->second.bucket); defect != defect_of.end())
        ++failures[defect->second];
    }
    return static_cast<std::size_t>(std::ranges::max_element(failures) - failures.begin());
  };
  std::vector<Avoided> all;
  for (const AvoidRule& rule : avoidance.rules) {
    if (rule.retired || rule.asked == 0) continue;
    const std::string predicate = to_text(rule);
    if (std::ranges::find(all, predicate, &Avoided::predicate) != all.end())
      continue;  // the rule is for another class of wrong numbers
    all.push_back({predicate, rule.failing, rule.asked, explained(rule)});
  }
  return all;
}

}  // namespace attest::engine
