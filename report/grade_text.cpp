#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "report/grade.hpp"
#include "report/text.hpp"

namespace attest::report {
namespace {

using engine::FaultGrade;
using engine::Grade;
using engine::GradeOptions;
using engine::Hunt;
using engine::LawPower;
using engine::RuleColumn;
using engine::RuleTable;

constexpr std::size_t name_width = 22;
constexpr std::size_t most_laws = 2;  // named per fault

std::string bare(const std::string& fault) { return fault.substr(fault.find(':') + 1); }

// "3/12": median and worst.
std::string pair_of(const std::vector<double>& values) {
  return values.empty() ? "-" : fmt::format("{:.0f}/{:.0f}", engine::median(values), std::ranges::max(values));
}

template <class Get>
std::vector<double> of_found(const FaultGrade& fault, Get get) {
  std::vector<double> values;
  for (const Hunt& hunt : fault.hunts)
    if (hunt.found) values.push_back(static_cast<double>(get(hunt)));
  return values;
}

// The laws that detect it on problems where the policy bound does not, the earliest first.
std::string beyond_bound(const FaultGrade& fault) {
  std::vector<LawPower> laws;
  for (const LawPower& law : fault.laws)
    if (law.first_beyond_bound && engine::all_laws()[law.law].name != "policy-bound") laws.push_back(law);
  std::ranges::stable_sort(laws, {}, [](const LawPower& law) { return *law.first_beyond_bound; });
  std::string text;
  for (std::size_t i = 0; i < std::min(laws.size(), most_laws); ++i)
    text += fmt::format("{}{} {}", i ? ", " : "", engine::all_laws()[laws[i].law].name, *laws[i].first_beyond_bound);
  if (laws.size() > most_laws) text += fmt::format(", {} more", laws.size() - most_laws);
  return text.empty() ? "-" : text;
}

std::string campaign_line(const FaultGrade& fault, bool laws) {
  std::set<std::string> credited;
  for (const Hunt& hunt : fault.hunts)
    if (hunt.found) credited.insert(hunt.credited);
  const auto found = static_cast<std::size_t>(std::ranges::count_if(fault.hunts, &Hunt::found));
  std::string problems = pair_of(of_found(fault, [](const Hunt& h) { return h.drawn; }));
  if (found < fault.hunts.size()) problems = fmt::format("{}/{} seeds", found, fault.hunts.size());
  const std::vector<double> seconds = of_found(fault, [](const Hunt& h) { return h.seconds; });
  const auto proven = std::ranges::count_if(fault.hunts, &Hunt::proof);
  std::string line = fmt::format("  {:<{}}{:>12}{:>8}{:>10}{:>10}{:>10}  {:<24}", bare(fault.fault.name), name_width,
                                 problems, seconds.empty() ? "-" : fmt::format("{:.2f}", engine::median(seconds)),
                                 pair_of(of_found(fault, [](const Hunt& h) { return h.work; })),
                                 pair_of(of_found(fault, [](const Hunt& h) { return h.subject_calls; })),
                                 fmt::format("{}/{}", proven, fault.hunts.size()),
                                 credited.empty() ? "NOT FOUND" : fmt::format("{}", fmt::join(credited, ", ")));
  if (laws) line += "  " + beyond_bound(fault);
  while (line.back() == ' ') line.pop_back();
  return line + "\n";
}

std::string campaign_table(const Grade& grade, const GradeOptions& options) {
  std::string text = fmt::format(
      "Default campaigns, seeds 1..{}, at most {} problems each; median/worst of the seeds: problems to the first "
      "failure,\n"
      "seconds (median), {} of the reproducer, subject calls of shrinking; seeds whose law proves what "
      "it found;\nthe law credited with it\n",
      options.seeds, grouped(options.cases), options.op->unit_of_work());
  if (options.paired > 0)
    text += fmt::format(
        "(the policy bound where it fails too). Last: laws that detect it on problems on which the bound does not, and "
        "the\n"
        "first such of {} problems that all laws were tried on\n",
        grouped(options.paired));
  text += fmt::format("  {:<{}}{:>12}{:>8}{:>10}{:>10}{:>10}  {:<24}{}\n", "fault", name_width, "problems", "s", "size",
                      "calls", "by proof", "credited", options.paired > 0 ? "  laws beyond the bound" : "");
  for (const FaultGrade& fault : grade.faults) text += campaign_line(fault, options.paired > 0);
  const std::vector<std::string> missed = grade.missed();
  text += fmt::format(
      "{} of {} faults found from every seed; problems to the first failure: median {:.0f}, worst {:.0f}\n",
      grade.faults.size() - missed.size(), grade.faults.size(), grade.median_problems(), grade.worst_problems());
  const std::vector<std::string> not_proven = grade.not_proven();
  text += not_proven.empty()
              ? "all that was found was found by proof\n"
              : fmt::format("found by statistics alone from some seed: {}\n", fmt::join(not_proven, ", "));
  if (const std::size_t rest = options.faults.size() - grade.faults.size(); rest > 0)
    text += fmt::format("{} more {} not graded: interrupted\n", rest, rest == 1 ? "fault was" : "faults were");
  return text;
}

// "0.31", "1.2e+04", "any" where no multiple is enough.
std::string multiple_text(double multiple) { return std::isinf(multiple) ? "none" : fmt::format("{:.2g}", multiple); }

std::string percent(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? "-" : fmt::format("{:.0f}", 100 * static_cast<double>(part) / static_cast<double>(whole));
}

// The rows where attest falls behind some rule in more than one case of a hundred.
std::string beyond_text(const RuleTable& table) {
  std::vector<std::string> rows;
  for (const engine::FaultRules& fault : table.faults)
    if (const std::uint64_t most = fault.most_beyond(); 100 * most > fault.acts)
      rows.push_back(fmt::format("{} {} of {}", bare(fault.fault), most, fault.acts));
  if (rows.empty()) return "  beyond is at most 1 % of the cases in every row\n";
  return fmt::format("  beyond is more than 1 % of the cases for {}\n", fmt::join(rows, ", "));
}

// Cases of the rules of others in which there is nothing to detect.
std::string owed_text(const RuleTable& table) {
  std::vector<std::string> rows;
  for (const engine::FaultRules& fault : table.faults)
    if (!fault.owed.empty())
      rows.push_back(fmt::format("{} {} of {}", bare(fault.fault), fault.owed.size(), fault.acts));
  if (rows.empty()) return "";
  return fmt::format(
      "  owed, and not counted as beyond: a kernel that conforms was found to return the very bits: {}\n",
      fmt::join(rows, ", "));
}

// Says how the rules of others are set for faults of a kernel that promises more than they are told.
std::string wider_text(const RuleTable& table) {
  std::string text;
  for (const engine::WiderSetting& wider : table.wider) {
    text += fmt::format("  faults of {}: set by {} cases more, of kernels that promise no more than it does; multiples",
                        wider.parent, grouped(wider.cases));
    std::vector<std::string> columns;
    for (std::size_t c = 0; c < table.columns.size(); ++c) {
      if (table.columns[c].own) continue;
      std::vector<std::string> types;
      for (const auto& [type, multiple] : wider.multiples[c])
        types.push_back(fmt::format("{} {}", name(type), multiple_text(multiple)));
      columns.push_back(fmt::format("{}: {}", table.columns[c].name, fmt::join(types, ", ")));
    }
    text += fmt::format("\n  {}\n", fmt::join(columns, "; "));
  }
  return text;
}

// "1,000", and "120 of 1,000" of an interrupted run.
std::string part_of(std::uint64_t part, std::uint64_t whole) {
  return part == whole ? grouped(whole) : grouped(part) + " of " + grouped(whole);
}

std::string rule_text(const RuleTable& table, const GradeOptions& options) {
  constexpr int width = 13;
  std::string text = fmt::format(
      "\nRules, {} cases: {} problems on every kernel, {};\n"
      "and {} results of emulated kernels that conform, other ones on each problem of {}.\n"
      "In % of the cases in which a fault changes the result: detected as published / set so that no conforming case "
      "is\n"
      "objected to\n  {:<{}}{:>6}",
      table.set, part_of(table.problems, options.paired), table.doc, grouped(table.emulated_cases), table.emulated_on,
      "fault", name_width, "cases");
  for (const RuleColumn& column : table.columns) text += fmt::format("{:>{}}", column.name, column.own ? 8 : width);
  text += "  beyond\n";
  for (const engine::FaultRules& fault : table.faults) {
    text += fmt::format("  {:<{}}{:>6}", bare(fault.fault), name_width, fault.acts);
    for (std::size_t c = 0; c < table.columns.size(); ++c) {
      const engine::RulePower& power = fault.columns[c];
      if (table.columns[c].own)
        text += fmt::format("{:>8}", percent(power.detected, fault.acts));
      else
        text += fmt::format(
            "{:>{}}",
            fault.acts == 0 ? "-"
                            : percent(power.detected, fault.acts) + "/" + percent(power.detected_at_zero, fault.acts),
            width);
    }
    text += fmt::format("{:>8}\n", fault.acts == 0 ? "-" : percent(fault.most_beyond(), fault.acts));
  }
  text += fmt::format("  {:<{}}{:>6}", "false alarms, %", name_width, "");
  for (const RuleColumn& column : table.columns) {
    const std::uint64_t cases = column.own ? table.conforming_cases : table.widening_cases;
    const double share = cases == 0 ? 0 : 100 * static_cast<double>(column.false_alarms) / static_cast<double>(cases);
    text +=
        fmt::format("{:>{}}", column.false_alarms == 0 ? "0" : fmt::format("{:.2g}", share), column.own ? 8 : width);
  }
  std::set<Format> types;
  for (const RuleColumn& column : table.columns)
    for (const auto& [type, multiple] : column.multiple) types.insert(type);
  for (const Format type : types) {
    text += fmt::format("\n  {:<{}}{:>6}", fmt::format("multiple for {}", name(type)), name_width, "");
    for (const RuleColumn& column : table.columns)
      text += column.own ? std::string(8, ' ') : fmt::format("{:>{}}", multiple_text(column.multiple.at(type)), width);
  }
  text += fmt::format(
      "\n  false alarms: of {} cases of conforming kernels, each held to its own contract; for the rules of others, of "
      "the {}\n"
      "  with accumulators that round to nearest, no flush to zero, and functions as exact as where a contract is "
      "silent.\n"
      "  multiple: of the published tolerance, at which no such case is objected to. beyond: %, the most that a rule "
      "so\n"
      "  set detects and attest does not\n",
      grouped(table.conforming_cases), grouped(table.widening_cases));
  text += wider_text(table) + beyond_text(table) + owed_text(table);
  for (const std::string& alarm : table.alarms) text += "  FALSE ALARM " + alarm + "\n";
  return text;
}

std::string clean_text(const Grade& grade) {
  const engine::CleanRecord& clean = grade.clean;
  if (clean.asked == 0) return "\nNo campaign of a conforming kernel was run: --clean 0\n";
  std::string text = fmt::format(
      "\nConforming kernels: {} false alarms in {} default campaigns, {} problems, {} elements judged ({} "
      "undetermined)\n",
      clean.alarms.size(), part_of(clean.campaigns, clean.asked), grouped(clean.problems),
      grouped(static_cast<std::uint64_t>(clean.elements)), grouped(static_cast<std::uint64_t>(clean.undetermined)));
  for (const auto& alarm : clean.alarms)
    text +=
        fmt::format("  FALSE ALARM {}: attest check {}{} --problem {}\n", alarm.law, alarm.subject,
                    alarm.policy.empty() ? "" : " --policy " + shell_quoted(alarm.policy), shell_quoted(alarm.problem));
  return text;
}

}  // namespace

std::string interrupted_text(const Grade& grade, const GradeOptions& options) {
  if (!grade.interrupted) return {};
  std::string text = fmt::format("INTERRUPTED: {} of {} faults graded", grade.faults.size(), options.faults.size());
  if (options.paired > 0) {
    const auto problems_of = [&](std::size_t set) { return set < grade.rules.size() ? grade.rules[set].problems : 0; };
    text += fmt::format("; rules on {} of {} plain problems and {} of {} of the domain", grouped(problems_of(0)),
                        grouped(options.paired), grouped(problems_of(1)), grouped(options.paired));
  }
  if (grade.clean.asked > 0)
    text += fmt::format("; {} of {} campaigns of conforming kernels", grade.clean.campaigns, grade.clean.asked);
  return text + "; what was half done is left out";
}

std::string grade_text(const Grade& grade, const GradeOptions& options) {
  std::string text;
  if (grade.interrupted) text = interrupted_text(grade, options) + "\n\n";
  text += campaign_table(grade, options);
  for (const RuleTable& table : grade.rules) text += rule_text(table, options);
  text += clean_text(grade);
  if (const auto missed = grade.missed(); !missed.empty())
    text += fmt::format("Not found from every seed: {}\n", fmt::join(missed, ", "));
  return text + fmt::format("graded in {}\n", duration(grade.seconds));
}

}  // namespace attest::report
