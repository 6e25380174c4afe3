// grade: how much attest detects, on planted faults, beside the rules that others use.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/campaign_option.hpp"
#include "cli/interrupt.hpp"
#include "cli/outputs.hpp"
#include "cli/policy_option.hpp"
#include "cli/settings.hpp"
#include "cli/verbs.hpp"
#include "core/error.hpp"
#include "core/glob.hpp"
#include "engine/grade/grade.hpp"
#include "report/grade.hpp"
#include "subjects/builtin.hpp"

namespace attest::cli {
namespace {

const std::vector<Option>& grade_options() {
  static const std::vector<Option> all{
      {"op", "OP", "attention, layer_norm or mha (each that has such faults)"},
      {"faults", "GLOB", "which faults of `attest list faults` (all)"},
      {"policy", "NAME|STAGE=FORMAT,...", "precision policy; fixes the dtype to its storage format"},
      {"seeds", "N", "default campaigns per fault, from the seeds 1..N (5)"},
      {"cases", "N", "problems that such a campaign may draw (20000)"},
      {"paired", "N", "problems that every law and every rule is tried on (1000; 0: none)"},
      {"emulated", "N", "emulated conforming kernels on each paired problem that is small enough (16; 0: none)"},
      {"clean", "N", "problems of the campaign of each conforming kernel and policy (100; 0: none)"},
      {"property", "GLOB", "the laws that the matrix has (all)"},
      {"jobs", "N", "threads (all cores)"},
      {"json", "FILE", "one JSON object; - is stdout"},
      {"svg", "FILE", "the matrix as a picture; - is stdout"},
  };
  return all;
}

std::vector<engine::GradedFault> faults_of(const ops::Op& op, const std::string& glob) {
  std::vector<engine::GradedFault> faults;
  for (const ListedSubject& fault : fault_subjects(op.name()))
    if (glob_matches(glob, std::string_view(fault.name).substr(std::string_view("fault:").size())))
      faults.push_back({fault.name, fault.parent, fault.report});
  return faults;
}

// Reads --policy for an operation: as other verbs do if it is the only one that is graded; else its share of the
// policy.
std::optional<ops::Policy> read_policy_of(const Settings& settings, const ops::Op& op, bool alone) try {
  const auto text = settings.text("policy");
  if (alone || !text) return read_policy(settings, op);
  return ops::policy_asked(op, *text);
} catch (const Error& error) {
  if (alone || error.exit() != Exit::usage) throw;
  throw usage_error(fmt::format("{}, which is graded too: give --op OP for one operation alone", error.what()));
}

engine::GradeOptions read_grade_options(const Settings& settings, const ops::Op& op, bool alone,
                                        std::vector<engine::GradedFault> faults) {
  engine::GradeOptions grade;
  grade.op = &op;
  grade.open = [](const std::string& name, const std::optional<ops::Policy>& policy) {
    return builtin_subject(name, policy ? to_text(*policy) : std::string());
  };
  grade.faults = std::move(faults);
  for (const ListedSubject& kernel : builtin_subjects(op.name())) grade.conforming.push_back(kernel.name);
  grade.reference = reference_subject(op.name());
  grade.draw_emulated = engine::emulated_kernel;
  grade.draw_emulated_for = engine::emulated_kernel_for;
  grade.conforming_returns = engine::emulated_kernel_returns;
  grade.policy = read_policy_of(settings, op, alone);
  grade.policy_text = settings.text("policy").value_or("");
  grade.property_glob = settings.text("property").value_or("");
  grade.seeds = settings.integer("seeds", 1, 1000).value_or(grade.seeds);
  grade.cases = settings.integer("cases", 1, 1'000'000'000).value_or(grade.cases);
  grade.paired = settings.integer("paired", 0, 1'000'000).value_or(grade.paired);
  grade.emulated = settings.integer("emulated", 0, 1000).value_or(grade.emulated);
  grade.clean = settings.integer("clean", 0, 1'000'000'000).value_or(grade.clean);
  grade.jobs = read_jobs(settings);
  return grade;
}

// The options of each operation that has faults of these names; of --op alone, if it is given.
std::vector<engine::GradeOptions> read_all_options(const Settings& settings) {
  const ops::Op* asked = asked_op(settings);
  const std::string glob = settings.text("faults").value_or("*");
  std::vector<std::pair<const ops::Op*, std::vector<engine::GradedFault>>> graded;
  for (const ops::Op* op : ops::all_ops()) {
    if ((asked != nullptr && asked != op) || op->grading() == nullptr) continue;
    if (auto faults = faults_of(*op, glob); !faults.empty()) graded.emplace_back(op, std::move(faults));
  }
  if (graded.empty())
    throw usage_error(fmt::format("{} {} matches no fault{}: `attest list faults` names them",
                                  settings.origin("faults"), glob, asked ? " of " + std::string(asked->name()) : ""));
  std::vector<engine::GradeOptions> all;
  for (auto& [op, faults] : graded)
    all.push_back(read_grade_options(settings, *op, graded.size() == 1, std::move(faults)));
  return all;
}

// A live line where stderr is a terminal; else one per part.
void tell_grading(std::string_view what, std::size_t done, std::size_t of) {
  std::cerr << fmt::format("{}grading {} ({} of {}){}", progress_is_live() ? "\r\033[K" : "", what, done + 1, of,
                           progress_is_live() ? "" : "\n")
            << std::flush;
}

// 1 if one of them says so; else the last one's, which alone may have been interrupted.
Exit exit_of(std::span<const report::Graded> graded) {
  const bool found =
      std::ranges::any_of(graded, [](const report::Graded& one) { return one.grade.exit() == Exit::found; });
  return found ? Exit::found : graded.back().grade.exit();
}

// The report of one operation is its own object; that of several is an object of all that were asked for.
nlohmann::ordered_json json_of(std::span<const report::Graded> graded, std::size_t asked) {
  const auto with_exit = [](nlohmann::ordered_json object, Exit exit) {
    object["exit"] = static_cast<int>(exit);
    return object;
  };
  if (asked == 1) return with_exit(report::grade_json(graded[0].grade, graded[0].options), graded[0].grade.exit());
  nlohmann::ordered_json all{{"format", 1}, {"verb", "grade"}};
  all["interrupted"] = graded.back().grade.interrupted;
  all["operations"] = nlohmann::ordered_json::array();
  for (const report::Graded& one : graded)
    all["operations"].push_back(with_exit(report::grade_json(one.grade, one.options), one.grade.exit()));
  return with_exit(std::move(all), exit_of(graded));
}

void tell(std::span<const report::Graded> graded, std::span<const engine::GradeOptions> chosen) {
  for (const report::Graded& one : graded) {
    if (&one != &graded.front()) std::cout << "\n";
    if (chosen.size() > 1) std::cout << "==== " << one.options.op->name() << "\n\n";
    std::cout << report::grade_text(one.grade, one.options);
  }
  for (const engine::GradeOptions& left : chosen.subspan(graded.size()))
    std::cout << fmt::format("INTERRUPTED: nothing of {} was graded\n", left.op->name());
}

int run_grade_verb(const Settings& settings) {
  std::unique_ptr<OutputFile> json, svg;
  if (const auto path = settings.text("json")) json = std::make_unique<OutputFile>(*path, "--json");
  if (const auto path = settings.text("svg")) svg = std::make_unique<OutputFile>(*path, "--svg");
  if (json && svg && json->is_stdout() && svg->is_stdout())
    throw usage_error("--json - and --svg - cannot share stdout: give one of them a file");
  std::vector<engine::GradeOptions> chosen = read_all_options(settings);
  const std::atomic<bool>* interrupt = end_on_interrupt();
  std::vector<engine::Grade> grades;
  for (engine::GradeOptions& one : chosen) {
    if (!grades.empty() && grades.back().interrupted) break;
    one.progress = tell_grading;
    one.interrupt = interrupt;
    grades.push_back(engine::run_grade(one));
  }
  if (progress_is_live()) std::cerr << "\r\033[K" << std::flush;
  std::vector<report::Graded> graded;
  for (std::size_t n = 0; n < grades.size(); ++n) graded.push_back({grades[n], chosen[n]});
  if (json) write_json(*json, json_of(graded, chosen.size()));
  if (svg) write_text(*svg, report::grade_svg(graded));
  const Exit exit = exit_of(graded);
  if (grades.size() == 1 && grades.front().interrupted && grades.front().faults.empty())
    throw Error(Exit::interrupted, "interrupted before all of one fault was measured: there is nothing to report");
  if (!(json && json->is_stdout()) && !(svg && svg->is_stdout())) tell(graded, chosen);
  return static_cast<int>(exit);
}

}  // namespace

void add_grade(CLI::App& app, Run& run) {
  auto* verb =
      app.add_subcommand("grade", "the fault catalogue against the laws, and against the rules that others use");
  auto settings = std::make_shared<Settings>();
  settings->declare(*verb, grade_options());
  verb->callback([=, &run] {
    run = [=] {
      settings->complete("grade");
      return run_grade_verb(*settings);
    };
  });
}

}  // namespace attest::cli
