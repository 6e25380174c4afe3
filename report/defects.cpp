#include "report/defects.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "core/field.hpp"
#include "engine/effective.hpp"
#include "report/explain.hpp"
#include "report/text.hpp"

namespace attest::report {
namespace {

using engine::Defect;
using engine::Entry;
using engine::Finding;
using engine::Summary;

constexpr std::size_t most_in_full = 2;  // the others are a line each
constexpr std::size_t most_neighbours = 4;

std::string item(std::string_view label, const std::string& text) {
  return text.empty() ? std::string() : fmt::format("     {:<11}{}\n", label, printable(text));
}

std::string what_happens(const Entry& entry) {
  if (!entry.evidence) return happened(attest::name(entry.seen), "", "");
  const Evidence& e = *entry.evidence;
  const bool differ = e.sides.size() == 2 && e.wrong != Wrong::memory;
  return happened(attest::name(entry.seen), differ ? "two" : attest::name(e.wrong), e.tensor);
}

std::string where(const Defect& defect) {
  const auto& [failing, asked, failing_elsewhere, elsewhere] = defect.counts;
  if (asked + elsewhere < 2 || failing + failing_elsewhere == 0) return {};  // too few problems, or no failure, counted
  if (defect.predicate.atoms.empty())
    return fmt::format("no condition found: {} fails {} of {}", defect.key.property, grouped(failing), grouped(asked));
  return fmt::format("{}: {} fails {} of {}, elsewhere {} of {}", to_text(defect.predicate), defect.key.property,
                     grouped(failing), grouped(asked), grouped(failing_elsewhere), grouped(elsewhere));
}

std::string also(const Summary& summary, const Defect& defect) {
  std::vector<std::string> laws;
  const std::string& own = summary.findings[defect.findings.front()].entry.property;
  const auto add = [&](const std::string& law) {
    if (law != own && std::ranges::find(laws, law) == laws.end()) laws.push_back(law);
  };
  for (const std::size_t i : defect.findings) {
    add(summary.findings[i].entry.property);
    for (const std::string& law : summary.findings[i].also) add(law);
  }
  const std::size_t more = laws.size() > 6 ? laws.size() - 6 : 0;
  laws.resize(laws.size() - more);
  return fmt::format("{}", fmt::join(laws, ", ")) + (more > 0 ? fmt::format(" and {} more", more) : "");
}

std::string size_of(const Entry& entry) {
  std::string text = fmt::format(
      "{} {}, {} after {} subject calls", grouped(static_cast<std::uint64_t>(work_of(entry.problem))),
      entry.problem.op().unit_of_work(), entry.minimal ? "1-minimal" : "not minimal yet (`attest shrink` goes on)",
      grouped(static_cast<std::uint64_t>(entry.shrink_calls)));
  if (const std::string told = neighbours_that_pass(entry); !told.empty()) text += "; passes at " + told;
  return text;
}

// The problem of a finding; of a stored one no more than a screen holds, since its file has the rest.
std::string problem_text(const Finding& finding) {
  constexpr std::size_t most = 2000;
  const std::string text = to_text(finding.entry.problem);
  if (finding.reproducer.empty() || text.size() <= most) return text;
  return text.substr(0, text.rfind(';', most)) + fmt::format("; ... ({} characters, in the reproducer)", text.size());
}

std::string title(const Summary& summary, const Defect& defect, std::size_t number, const Look& look) {
  const Finding& finding = summary.findings[defect.findings.front()];
  const std::string name = look.verbose ? finding.entry.bucket : headline(summary, defect);
  return fmt::format("  {}. {}  in {}", number, painted(look, Part::title, printable(name)),
                     counted(defect.failures, "problem"));
}

// Why it fails nothing: "known: ort-attention-14", or its waiver.
std::string known_text(const Summary& summary, const Defect& defect) {
  const auto waiver = std::ranges::find(defect.waivers, false, &engine::Waiver::over);
  return printable(waiver == defect.waivers.end() ? fmt::format("known: {}", fmt::join(summary.known_as(defect), ", "))
                                                  : waiver_text(*waiver));
}

// A defect with its witness, its problem and the line that reruns it; on request the rest.
std::string in_full(const Summary& summary, const Defect& defect, std::size_t number, const Look& look) {
  const Finding& finding = summary.findings[defect.findings.front()];
  const Entry& entry = finding.entry;
  std::string text = "\n" + title(summary, defect, number, look);
  // A corpus does not say which cases were drawn before.
  if (const Finding& first = summary.first_of(defect); look.verbose && first.cases_to_first > 0)
    text += fmt::format(", first in case {} after {}", grouped(first.case_number), duration(first.seconds_to_first));
  if (look.verbose && defect.findings.size() > 1) text += ", " + counted(defect.findings.size(), "bucket");
  text += "\n";
  if (entry.evidence) text += item("witness", evidence_line(*entry.evidence));
  if (entry.evidence && entry.evidence->sides.size() == 2 && entry.evidence->wrong != Wrong::memory) {
    text += item("A", side_line(entry.evidence->sides[0]));
    text += item("B", side_line(entry.evidence->sides[1]));
  }
  text += item("said", entry.reason) + item("in words", in_words(entry));
  text += item("problem", problem_text(finding)) + item("in decimal", decimals(entry.problem));
  text += printable_lines(conditions_text(entry, "     ", 11));
  if (const auto basis = engine::basis(entry.property); look.verbose || basis != "proof")
    text += item("shown by", std::string(basis));
  if (look.verbose) text += item("open keys", open_keys(entry));
  if (look.verbose || !entry.minimal) text += item("size", size_of(entry));
  if (defect.effective) text += item("precision", to_text(*defect.effective));
  text += item("where", where(defect));
  for (const engine::Waiver& waiver : defect.waivers) text += item("waiver", waiver_text(waiver));
  if (defect.explanation) text += brief_text(*defect.explanation, item);
  if (look.verbose) text += item("also fails", also(summary, defect));
  return text +
         fmt::format("     {:<11}{}\n", "rerun", painted(look, Part::command, printable(rerun_line(summary, finding))));
}

}  // namespace

std::string neighbours_that_pass(const Entry& entry) {
  if (!entry.minimal) return {};
  std::vector<std::string> told;
  const auto add = [&](auto&& wanted) {
    for (const std::string& change : entry.neighbours) {
      const std::string name = change.substr(0, change.find(':'));
      const bool again = std::ranges::any_of(told, [&](const std::string& t) { return t.starts_with(name + ":"); });
      if (told.size() < most_neighbours && !again && wanted(name, change)) told.push_back(change);
    }
  };
  const ops::Op& op = entry.problem.op();
  const auto is_dimension = [&](const std::string& name) {
    const ops::Field* field = op.find_field(name);
    return field && field->group == FieldGroup::shape;
  };
  add([&](const std::string& name, const std::string& change) {
    if (!is_dimension(name)) return false;
    const std::size_t arrow = change.find(" -> ");
    if (arrow == std::string::npos) return false;
    const auto from = parse_double(change.substr(name.size() + 2, arrow - name.size() - 2));
    const auto to = parse_double(change.substr(arrow + 4));
    return from && to && *from - *to == 1;
  });
  add([&](const std::string& name, const std::string&) {
    const ops::Field* field = op.find_field(name);
    return field && !is_dimension(name) && (field->group != FieldGroup::values || field->kind == FieldKind::real);
  });
  return fmt::format("{}", fmt::join(told, ", "));
}

std::string headline(const Summary& summary, const Defect& defect) {
  const Entry& entry = summary.findings[defect.findings.front()].entry;
  return what_happens(entry) + (defect.predicate.atoms.empty() ? "" : " where " + to_text(defect.predicate)) +
         (entry.seen == VerdictKind::fail ? " (law " + entry.property + ")" : "");
}

std::string defects_text(const Summary& summary, const Look& look) {
  std::string full, brief, known;
  std::size_t number = 0, told = 0;
  for (const Defect& defect : summary.defects) {
    ++number;
    if (defect.known)
      known += fmt::format("{}, {}\n", title(summary, defect, number, look), known_text(summary, defect));
    else if (told++ < most_in_full)
      full += in_full(summary, defect, number, look);
    else
      brief += title(summary, defect, number, look) + "\n";
  }
  brief += known;
  return full + (brief.empty() ? "" : "\n") + brief;
}

}  // namespace attest::report
