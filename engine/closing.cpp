#include "engine/closing.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "engine/bucket.hpp"
#include "engine/cluster.hpp"
#include "engine/known.hpp"

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

std::vector<Avoided> avoided(const Avoidance& avoidance, const Summary& summary, const Supports& supports) {
  std::vector<Avoided> all;
  for (const AvoidRule& rule : avoidance.rules) {
    if (rule.retired || rule.asked == 0) continue;
    Avoided one{to_text(rule), rule.failing, rule.asked, 0};
    const auto same = [&](const Avoided& other) { return other.predicate == one.predicate; };
    if (std::ranges::any_of(all, same)) continue;  // of another class of wrong numbers
    for (std::size_t i = 0; i < summary.defects.size() && one.defect == 0; ++i)
      if (explains(summary, summary.defects[i], rule, supports)) one.defect = i + 1;
    all.push_back(std::move(one));
  }
  return all;
}

}  // namespace attest::engine
