// grade: how much attest detects, on planted faults, beside the rules that others use.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>

#include <nlohmann/json.hpp>

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
#include "subjects/builtin_emulated.hpp"

namespace attest::cli {
namespace {

const std::vector<Option>& grade_options() {
  static const std::vector<Option> all{
      {"faults", "GLOB", "which faults of `attest list faults` (all)"},
      {"policy", "NAME|STAGE=FORMAT,...", "precision policy; fixes the dtype to its storage format"},
      {"seeds", "N", "default campaigns per fault, from the seeds 1..N (5)"},
      {"cases", "N", "problems that such a campaign may draw (20000)"},
      {"paired", "N", "problems that every law and every rule is tried on (1000; 0: none)"},
      {"emulated", "N",
       "emulated conforming kernels on each paired problem of at most 2^16 multiply-adds (16; 0: none)"},
      {"clean", "N", "problems of the campaign of each conforming kernel and policy (100; 0: none)"},
      {"property", "GLOB", "the laws that the matrix has (all)"},
      {"jobs", "N", "threads (all cores)"},
      {"json", "FILE", "one JSON object; - is stdout"},
      {"svg", "FILE", "the matrix as a picture; - is stdout"},
  };
  return all;
}

std::vector<engine::GradedFault> read_faults(const Settings& settings) {
  const std::string glob = settings.text("faults").value_or("*");
  std::vector<engine::GradedFault> faults;
  for (const ListedSubject& fault : fault_subjects())
    if (glob_matches(glob, std::string_view(fault.name).substr(std::string_view("fault:").size())))
      faults.push_back({fault.name, fault.parent, fault.report});
  if (faults.empty())
    throw usage_error(
        fmt::format("{} {} matches no fault: `attest list faults` names them", settings.origin("faults"), glob));
  return faults;
}

engine::GradeOptions read_grade_options(const Settings& settings) {
  engine::GradeOptions grade;
  grade.open = [](const std::string& name, const std::optional<Policy>& policy) {
    return builtin_subject(name, policy ? to_text(*policy) : std::string());
  };
  grade.faults = read_faults(settings);
  for (const ListedSubject& kernel : builtin_subjects()) grade.conforming.push_back(kernel.name);
  grade.reference = "builtin:explicit";
  grade.draw_emulated = emulated_kernel;
  grade.draw_emulated_with = emulated_kernel_with;
  grade.conforming_returns = emulated_kernel_returns;
  if (const auto policy = read_policy(settings, *ops::all_ops().front())) grade.policy = policy->as<Policy>();
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

// A live line where stderr is a terminal; else one per part.
void tell_grading(std::string_view what, std::size_t done, std::size_t of) {
  std::cerr << fmt::format("{}grading {} ({} of {}){}", progress_is_live() ? "\r\033[K" : "", what, done + 1, of,
                           progress_is_live() ? "" : "\n")
            << std::flush;
}

int run_grade_verb(const Settings& settings) {
  std::unique_ptr<OutputFile> json, svg;
  if (const auto path = settings.text("json")) json = std::make_unique<OutputFile>(*path, "--json");
  if (const auto path = settings.text("svg")) svg = std::make_unique<OutputFile>(*path, "--svg");
  if (json && svg && json->is_stdout() && svg->is_stdout())
    throw usage_error("--json - and --svg - cannot share stdout: give one of them a file");
  engine::GradeOptions chosen = read_grade_options(settings);
  chosen.progress = tell_grading;
  chosen.interrupt = end_on_interrupt();
  const engine::Grade grade = engine::run_grade(chosen);
  if (progress_is_live()) std::cerr << "\r\033[K" << std::flush;
  if (json) {
    auto object = report::grade_json(grade, chosen);
    object["exit"] = static_cast<int>(grade.exit());
    write_json(*json, object);
  }
  if (svg) write_text(*svg, report::grade_svg(grade, chosen));
  if (grade.exit() == Exit::internal)
    throw internal_error("interrupted before all of one fault was measured: there is nothing to tell");
  if (!(json && json->is_stdout()) && !(svg && svg->is_stdout())) std::cout << report::grade_text(grade, chosen);
  return static_cast<int>(grade.exit());
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
