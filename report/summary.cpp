#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "properties/trial.hpp"
#include "report/defects.hpp"
#include "report/observers.hpp"
#include "report/text.hpp"

namespace attest::report {
namespace {

using engine::PropertyCounts;
using engine::Summary;

constexpr std::size_t most_laws_shown = 4, most_avoided_shown = 3;

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

std::string law_row(const std::string& law, const PropertyCounts& counts) {
  const std::uint64_t skipped = total(counts.skipped), vacuous = total(counts.vacuous);
  const std::string why = shortened(by_reason(skipped >= vacuous ? counts.skipped : counts.vacuous, 1), 70);
  std::string text = fmt::format("  {:<24}{:>10}{:>10}{:>10}{:>10}   {}\n", law,
                                 grouped(counts.of(VerdictKind::pass) + counts.of(VerdictKind::warn)),
                                 grouped(findings_of(counts)), grouped(skipped), grouped(vacuous), why);
  if (const std::uint64_t warnings = counts.of(VerdictKind::warn); warnings > 0)
    text += fmt::format("    of those held, {} with a warning\n", grouped(warnings));
  return text;
}

// All laws where all held; else those that failed most, since the others are not what the reader came for.
std::string law_table(const Summary& summary) {
  std::string text = fmt::format("\n  {:<24}{:>10}{:>10}{:>10}{:>10}   mostly because\n", "law", "held", "failed",
                                 "skipped", "vacuous");
  std::vector<std::pair<std::string, const PropertyCounts*>> rows;
  for (const auto& [law, counts] : summary.verdicts) rows.emplace_back(law, &counts);
  const auto failed = [](const auto& row) { return findings_of(*row.second); };
  std::ranges::stable_sort(rows, [&](const auto& a, const auto& b) { return failed(a) > failed(b); });
  const auto failing =
      static_cast<std::size_t>(std::ranges::count_if(rows, [&](const auto& row) { return failed(row) > 0; }));
  const bool all_alike = failing == 0 || failing == rows.size();
  const std::size_t shown = all_alike ? rows.size() : std::min(failing, most_laws_shown);
  for (std::size_t i = 0; i < shown; ++i) text += law_row(rows[i].first, *rows[i].second);
  if (all_alike) return text;
  if (failing > shown) text += fmt::format("  and {} more failed\n", counted(failing - shown, "law"));
  return text + fmt::format("  the other {} did not fail\n", counted(rows.size() - failing, "law"));
}

// The line for a campaign that went on with a folder. Triage draws nothing, and needs no such line.
std::string earlier_runs(const Summary& summary) {
  if (summary.earlier_cases == 0 || summary.verb == "triage") return {};
  if (summary.earlier_cases < summary.cases)
    return fmt::format("  {} of them were drawn before: this campaign went on\n", grouped(summary.earlier_cases));
  return "  this campaign had come to its end before, and nothing was drawn now: --cases, --seed or another -o draw "
         "more\n";
}

// Counts by side the problems that a subject declined though both say that they take it.
std::string unsupported_by_side(const Summary& summary) {
  std::uint64_t a = 0, b = 0;
  const std::string prefix(engine::unsupported_prefix);
  for (const auto& [reason, count] : summary.skipped) {
    if (reason.starts_with(prefix + properties::subject_prefix)) a += count;
    if (reason.starts_with(prefix + properties::peer_prefix)) b += count;
  }
  return a + b == 0 ? std::string() : fmt::format("  unsupported: A {}, B {}\n", grouped(a), grouped(b));
}

// The differences that contracts leave open between two subjects: no findings, each told with a problem.
std::string open_questions(const Summary& summary) {
  std::string text;
  if (summary.subject_b.empty()) return text;
  for (const auto& [question, seen] : summary.warned)
    text += fmt::format("  open: {} ({}), {} of {}\n", question, counted(seen.problems, "problem"),
                        element_name(seen.evidence), seen.problem);
  return text;
}

// The warnings of laws, each with the problem that stands out most.
std::string warnings(const Summary& summary) {
  std::string text;
  if (!summary.subject_b.empty()) return text;
  for (const auto& [law, seen] : summary.warned)
    text += fmt::format(
        "\n  warning: {} of {}; it fails nothing\n     problem    {}\n     witness    {}\n     rerun      {}\n", law,
        counted(seen.problems, "problem"), seen.problem, evidence_line(seen.evidence),
        check_line(summary, law, seen.problem));
  return text;
}

std::string verdict_line(const Summary& summary, const Look& look) {
  const auto fresh = std::ranges::count_if(summary.defects, [](const auto& defect) { return !defect.known; });
  const auto buckets = std::ranges::count_if(summary.findings, [](const auto& finding) { return !finding.known; });
  const bool two = !summary.subject_b.empty();
  std::string verdict = two ? "no difference beyond both bounds" : "every property held";
  if (summary.interrupted) verdict += " until it was interrupted";
  if (fresh > 0)
    verdict = "FAILED, " + counted(static_cast<std::size_t>(fresh), two ? "difference" : "defect") +
              (look.verbose ? " in " + counted(static_cast<std::size_t>(buckets), "bucket") + " of failures" : "");
  else if (!summary.findings.empty())
    verdict = "nothing but known failures";
  if (!summary.silent.empty()) {
    verdict += fresh > 0 ? ", and no call returned at the end" : ", until no call returned any more";
  } else if (summary.findings.empty()) {
    if (const std::string unjudged = summary.unjudged(); !unjudged.empty()) verdict = "nothing judged: " + unjudged;
  } else if (!summary.emptiness().empty()) {
    verdict += "; nothing else was tested";
  }
  const Part part = summary.exit() == Exit::found  ? Part::failed
                    : summary.exit() == Exit::held ? Part::held
                                                   : Part::title;
  return fmt::format("{}{}: {}\n", summary.subject, two ? " and " + summary.subject_b : "",
                     painted(look, part, verdict));
}

// A line of counts: problems, failures, elements that the bound judged.
std::string counts(const Summary& s, const Look& look) {
  std::string text = fmt::format("  {} in {}", counted(s.cases, "problem"), duration(s.seconds));
  if (look.verbose && s.seconds > 0) text += fmt::format(" ({:.0f}/s)", static_cast<double>(s.cases) / s.seconds);
  text += fmt::format(", seed {}", s.seed);
  if (!s.policy.empty()) text += ", policy " + s.policy;
  if (s.interrupted) text += ", interrupted";
  text += fmt::format(": {} failed", grouped(s.failing_cases));
  if (s.judged > 0)
    text += fmt::format("; the proven bound judged {} of them, {}", grouped(s.judged),
                        counted(static_cast<std::uint64_t>(s.elements), "output element"));
  return text + "\n";
}

// The problems that were not judged, and why.
std::string not_judged(const Summary& s) {
  std::string text;
  if (!s.skipped.empty()) text += "  skipped: " + by_reason(s.skipped) + "\n";
  if (!s.vacuous.empty()) text += "  vacuous: " + by_reason(s.vacuous) + "\n";
  if (s.cut_off > 0)
    text += fmt::format("  cut off: {} under way when time was over, and not judged\n",
                        s.cut_off == 1 ? "1 problem was" : grouped(s.cut_off) + " problems were");
  if (s.slow > 0)
    text += fmt::format("  slow: {} {} the time limit, and not when a fresh instance ran it alone\n", grouped(s.slow),
                        s.slow == 1 ? "problem passed" : "problems passed");
  return text;
}

// The statistics of -v: problems that were not judged and why, conditions avoided, each law, and where the time went.
std::string statistics(const Summary& s) {
  std::string text;
  text += fmt::format("  of these elements {} {}", grouped(static_cast<std::uint64_t>(s.elements_long)),
                      s.op->long_in_words());
  if (s.undetermined > 0) text += fmt::format("; {} undetermined", grouped(static_cast<std::uint64_t>(s.undetermined)));
  text += "\n";
  text += not_judged(s);
  for (std::size_t i = 0; i < s.avoided.size() && i < most_avoided_shown; ++i) {
    const engine::Avoided& avoided = s.avoided[i];
    text += fmt::format("  avoiding {} ({} of {} fail{})\n", avoided.predicate, grouped(avoided.failing),
                        grouped(avoided.asked), avoided.defect > 0 ? fmt::format(": defect {}", avoided.defect) : "");
  }
  if (s.avoided.size() > most_avoided_shown)
    text += fmt::format("  and avoiding {} more: --json has them\n",
                        counted(s.avoided.size() - most_avoided_shown, "condition"));
  if (s.redrawn > 0)
    text += fmt::format("  in place of {} of the problems others were drawn (--no-avoid draws them)\n",
                        share(static_cast<double>(s.redrawn), static_cast<double>(s.cases)));
  const engine::Seconds& t = s.seconds_in;
  const double all = t.draw + t.values + t.subject + t.oracle + t.laws + t.shrink;
  return text + law_table(s) +
         fmt::format("\n  time went to: subject {}, oracle {}, values {}, laws {}, drawing {}, shrinking {}\n",
                     share(t.subject, all), share(t.oracle, all), share(t.values, all), share(t.laws, all),
                     share(t.draw, all), share(t.shrink, all));
}

}  // namespace

std::string triage_text(const Summary& summary, const Look& look) {
  return painted(look, Part::failed, counted(summary.defects.size(), "defect")) +
         fmt::format(" in {} of failures\n", counted(summary.findings.size(), "bucket")) + defects_text(summary, look);
}

std::string summary_text(const Summary& summary, const Look& look) {
  const Summary& s = summary;
  std::string text = verdict_line(s, look);
  if (!s.silent.empty())
    text += fmt::format(
        "  The campaign ended early: {}\n  If a device is lost, end the processes that hold it or reset it, and start "
        "again.\n",
        s.silent);
  if (const std::string defects = defects_text(s, look); !defects.empty()) text += defects + "\n";
  text += counts(s, look) + earlier_runs(s);
  if (!s.subject_b.empty()) text += unsupported_by_side(s);
  text += open_questions(s);
  if (!s.assume.empty())
    text += fmt::format("  --assume '{}' gives up {} of the domain\n", s.assume, share(s.given_up, 1));
  if (!look.verbose && s.exit() == Exit::incomplete) text += not_judged(s);
  text += look.verbose ? statistics(s) : "  -v shows the laws, what could not be judged, and why\n";
  text += warnings(s);
  if (s.unshrunk > 0)
    text += fmt::format("\n  {} still to be shrunk: the campaign goes on with what waits in the same folder\n",
                        counted(s.unshrunk, "failure"));
  return text;
}

}  // namespace attest::report
