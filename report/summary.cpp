#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "report/observers.hpp"
#include "report/text.hpp"

namespace attest::report {
namespace {

using engine::PropertyCounts;
using engine::Summary;

std::string share(double part, double whole) {
  return whole > 0 ? fmt::format("{:.1f} %", 100 * part / whole) : std::string("-");
}

std::uint64_t total(const std::map<std::string, std::uint64_t>& reasons) {
  std::uint64_t sum = 0;
  for (const auto& [reason, count] : reasons) sum += count;
  return sum;
}

// "reason 12, reason 3, ..." with the most frequent first.
std::string by_reason(const std::map<std::string, std::uint64_t>& reasons, std::size_t most = 4) {
  std::vector<std::pair<std::string, std::uint64_t>> sorted(reasons.begin(), reasons.end());
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  std::string text;
  for (std::size_t i = 0; i < sorted.size() && i < most; ++i)
    text += fmt::format("{}{} {}", i ? ", " : "", sorted[i].first, grouped(sorted[i].second));
  if (sorted.size() > most) text += fmt::format(", {} more reasons", sorted.size() - most);
  return text;
}

std::string shortened(std::string text, std::size_t most) {
  if (text.size() > most) text = text.substr(0, most - 3) + "...";
  return text;
}

std::uint64_t findings_of(const PropertyCounts& counts) {
  std::uint64_t sum = 0;
  for (const auto& [kind, count] : counts.verdicts)
    if (is_finding(kind)) sum += count;
  return sum;
}

std::string law_table(const Summary& summary) {
  std::string text = fmt::format("\n  {:<24}{:>10}{:>10}{:>10}{:>10}   mostly because\n", "law", "held", "failed",
                                 "skipped", "vacuous");
  for (const auto& [law, counts] : summary.verdicts) {
    const std::uint64_t skipped = total(counts.skipped), vacuous = total(counts.vacuous);
    const std::string why = shortened(by_reason(skipped >= vacuous ? counts.skipped : counts.vacuous, 1), 70);
    text += fmt::format("  {:<24}{:>10}{:>10}{:>10}{:>10}   {}\n", law,
                        grouped(counts.of(VerdictKind::pass) + counts.of(VerdictKind::warn)),
                        grouped(findings_of(counts)), grouped(skipped), grouped(vacuous), why);
    if (const std::uint64_t warnings = counts.of(VerdictKind::warn); warnings > 0)
      text += fmt::format("    of those held, {} with a warning\n", grouped(warnings));
  }
  return text;
}

std::string finding_text(const Summary& summary, const engine::Finding& finding, std::size_t number) {
  const engine::Entry& entry = finding.entry;
  std::string text = fmt::format("\n  {}. {}  in {} {}{}", number, entry.bucket, grouped(finding.failures),
                                 finding.failures == 1 ? "case" : "cases", finding.known ? " (known)" : "");
  if (entry.property == engine::drift_name)
    return text + fmt::format("\n     witness    {}\n     worst      {}\n     rerun      {}\n",
                              evidence_line(*entry.evidence), to_text(entry.problem), rerun_line(summary, finding));
  text +=
      fmt::format(", first in case {} after {}\n", grouped(finding.case_number), duration(finding.seconds_to_first));
  text += fmt::format("     problem    {}\n", to_text(entry.problem));
  if (entry.evidence) text += fmt::format("     witness    {}\n", evidence_line(*entry.evidence));
  if (!entry.reason.empty()) text += fmt::format("     said       {}\n", entry.reason);
  if (!finding.also.empty()) text += fmt::format("     also fails {}\n", fmt::join(finding.also, ", "));
  text += fmt::format("     size       {} multiply-adds, {} after {} subject calls\n",
                      grouped(static_cast<std::uint64_t>(entry.problem.multiply_adds())),
                      entry.minimal ? "1-minimal" : "budget ended",
                      grouped(static_cast<std::uint64_t>(entry.shrink_calls)));
  return text + fmt::format("     rerun      {}\n", rerun_line(summary, finding));
}

std::string headline(const Summary& summary) {
  const std::size_t fresh = static_cast<std::size_t>(
      std::count_if(summary.findings.begin(), summary.findings.end(), [](const auto& f) { return !f.known; }));
  std::string verdict = "every property held";
  if (fresh > 0)
    verdict = fmt::format("{} {} of failures", fresh, fresh == 1 ? "bucket" : "buckets");
  else if (!summary.findings.empty())
    verdict = "nothing but known failures";
  if (const std::string empty = summary.emptiness(); !empty.empty())
    verdict = summary.findings.empty() ? empty : verdict + "; nothing else was tested";
  return fmt::format("{}: {}\n", summary.subject, verdict);
}

}  // namespace

std::string summary_text(const Summary& summary) {
  const Summary& s = summary;
  const double drawn = static_cast<double>(s.cases);
  std::string text = headline(s);
  text += fmt::format("  {} problems in {} ({:.0f}/s), seed {}{}{}\n", grouped(s.cases), duration(s.seconds),
                      s.seconds > 0 ? drawn / s.seconds : 0.0, s.seed, s.policy.empty() ? "" : ", policy " + s.policy,
                      s.interrupted ? ", interrupted" : "");
  text +=
      fmt::format("  the bound judged {} of them ({}): {} output elements, {} with 256 keys or more", grouped(s.judged),
                  share(static_cast<double>(s.judged), drawn), grouped(static_cast<std::uint64_t>(s.elements)),
                  grouped(static_cast<std::uint64_t>(s.elements_long)));
  if (s.undetermined > 0) text += fmt::format("; {} undetermined", grouped(static_cast<std::uint64_t>(s.undetermined)));
  text += "\n";
  if (!s.skipped.empty()) text += "  skipped: " + by_reason(s.skipped) + "\n";
  if (!s.vacuous.empty()) text += "  vacuous: " + by_reason(s.vacuous) + "\n";
  if (!s.assume.empty())
    text += fmt::format("  --assume '{}' gives up {} of the domain\n", s.assume, share(s.given_up, 1));
  text += law_table(s);
  const engine::Seconds& t = s.seconds_in;
  const double all = t.draw + t.values + t.subject + t.oracle + t.laws + t.shrink;
  text += fmt::format("\n  time went to: subject {}, oracle {}, values {}, laws {}, drawing {}, shrinking {}\n",
                      share(t.subject, all), share(t.oracle, all), share(t.values, all), share(t.laws, all),
                      share(t.draw, all), share(t.shrink, all));
  for (std::size_t i = 0; i < s.findings.size(); ++i) text += finding_text(s, s.findings[i], i + 1);
  return text;
}

}  // namespace attest::report
