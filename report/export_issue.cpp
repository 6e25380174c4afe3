#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "engine/bucket.hpp"
#include "properties/property.hpp"
#include "report/defects.hpp"
#include "report/export.hpp"
#include "report/text.hpp"

namespace attest::report {
namespace {

using engine::Entry;

// The symptom in a few words.
std::string symptom(const Entry& entry) {
  switch (entry.seen) {
    case VerdictKind::error:
      return "a valid call is refused";
    case VerdictKind::crash:
      return "the process dies";
    case VerdictKind::timeout:
      return "the call does not return";
    case VerdictKind::flaky:
      return "one call has several answers";
    case VerdictKind::poisoned:
      return "a call breaks those that follow it";
    default:
      break;
  }
  if (entry.evidence && entry.evidence->wrong == Wrong::memory) return "memory is touched that is not the call's";
  if (!entry.evidence || std::isfinite(entry.evidence->got)) return "wrong result";
  return fmt::format("the result is {}", number(entry.evidence->got));
}

std::string title(const Entry& entry) {
  const std::vector<std::string> settings = engine::settings_of(entry.problem);
  return fmt::format("{}, {}: {}{}", entry.subject, name(storage_of(entry.problem)), symptom(entry),
                     settings.empty() ? "" : fmt::format(" with {}", fmt::join(settings, ", ")));
}

// Keys of the contract that a finding may contradict.
std::vector<std::string_view> promises(const Entry& entry) {
  std::vector<std::string_view> keys;
  if (entry.seen == VerdictKind::fail)
    for (const std::string_view key : {"policy", "variance"}) keys.push_back(key);
  if (entry.evidence && entry.evidence->wrong != Wrong::finite)
    for (const std::string_view key : {"empty_row", "nan"}) keys.push_back(key);
  if (entry.property.find("batch") != std::string::npos) keys.emplace_back("batch_invariant");
  if (entry.seen == VerdictKind::flaky || entry.property == "repeat" || entry.property == "threads")
    keys.emplace_back("deterministic");
  return keys;
}

std::string section(std::string_view heading, const std::string& body) {
  return body.empty() ? std::string() : fmt::format("\n## {}\n\n{}\n", heading, body);
}

std::string happens(const Entry& entry) {
  std::string text;
  if (const std::string words = in_words(entry); !words.empty()) text += words + ".\n\n";
  if (!entry.reason.empty()) text += "It says: `" + printable(entry.reason) + "`\n\n";
  if (entry.evidence) text += "`" + evidence_line(*entry.evidence) + "`\n\n";
  text += conditions_text(entry, "", 7);
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

std::string expected(const Entry& entry) {
  if (entry.seen == VerdictKind::error || entry.seen == VerdictKind::crash || entry.seen == VerdictKind::timeout)
    return "An answer: the script below computes it in float64.";
  const ops::Law* law = ops::find_law(entry.property, entry.problem.op());
  std::string text = law ? fmt::format("The law `{}`: {}.", law->name, law->doc) : std::string();
  if (entry.evidence && entry.evidence->lo <= entry.evidence->hi)
    text += fmt::format(" Whatever the order of the sums, arithmetic of the precision `{}` stays within {} .. {} here.",
                        to_text(policy_of(entry.contract)), number(entry.evidence->lo), number(entry.evidence->hi));
  return text;
}

std::string said_by(std::span<const Quote> documents, const Entry& entry) {
  std::vector<std::string> lines;
  for (const Quote& quote : entry.problem.op().quotes_on(documents, entry.problem, promises(entry)))
    lines.push_back("> " + printable(quote.text));
  if (lines.empty())
    return "(Quote here the sentence that this contradicts: the subject declares none that bears on the call.)";
  return fmt::format("{}", fmt::join(lines, "\n>\n"));
}

std::string tried(const Entry& entry) {
  std::string text;
  if (entry.minimal)
    text += fmt::format("- The problem is as small as it gets: {} {}. Every smaller or plainer one is right.\n",
                        grouped(static_cast<std::uint64_t>(work_of(entry.problem))), entry.problem.op().unit_of_work());
  if (const std::string passes = neighbours_that_pass(entry); !passes.empty())
    text += fmt::format("- It is right with {}.\n", passes);
  if (entry.explained && !entry.explained->predicate.empty()) {
    const engine::Separation& counts = entry.explained->counts;
    text += fmt::format("- Of random calls {} of {} go wrong where `{}`, and {} of {} elsewhere.\n",
                        grouped(counts.failing), grouped(counts.asked), entry.explained->predicate,
                        grouped(counts.failing_elsewhere), grouped(counts.elsewhere));
  }
  if (entry.shown) text += fmt::format("- It shows in {} of {} runs.\n", entry.shown->seen, entry.shown->runs);
  return text.substr(0, text.empty() ? 0 : text.size() - 1);
}

}  // namespace

std::string issue_text(const Exported& exported, std::span<const Quote> documents, std::string_view system) {
  const Entry& entry = exported.entry;
  std::string text = "# " + printable(title(entry)) + "\n";
  text += section("What happens", happens(entry));
  text += section("What is expected", expected(entry));
  text += section("What the documents say", said_by(documents, entry));
  text += section("To reproduce", "```python\n" + python_script(exported) + "```");
  text += section("What was tried", tried(entry));
  return text + section("Environment",
                        fmt::format("- {}\n- {}\n- found by attest {}",
                                    printable(entry.subject_version.empty() ? entry.subject : entry.subject_version),
                                    printable(system), entry.attest_version));
}

}  // namespace attest::report
