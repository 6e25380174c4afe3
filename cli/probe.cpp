#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>

#include <nlohmann/json.hpp>

#include "cli/outputs.hpp"
#include "cli/subject_option.hpp"
#include "cli/verbs.hpp"
#include "core/error.hpp"
#include "report/probe.hpp"
#include "report/text.hpp"

namespace attest::cli {
namespace {

std::vector<Option> probe_options() {
  std::vector<Option> options{{"op", "NAME", "the operation (the first that the subject offers); `attest list ops`"},
                              {"policy", "NAME|STAGE=FORMAT,...",
                               "held to this precision policy, in its dtype alone (its own, in every dtype)"},
                              {"evidence", "", "print the problem behind every row, not of contradictions alone"},
                              {"tree", "", "print in which order weighted values are added, and nothing else"},
                              {"keys", "N", "with --tree: the number of keys (256)"},
                              {"problem", "TEXT", "with --tree: ask a call of these sizes and options"},
                              {"no-speed", "", "do not measure how fast calls are answered"},
                              {"json", "FILE", "one JSON object; - is stdout"}};
  for (const Option& option : subject_options()) options.push_back(option);
  return options;
}

int probe_orders(const Settings& settings, const std::string& text, const SubjectFactory& subject,
                 const engine::ProbeOptions& options, const std::unique_ptr<OutputFile>& json) {
  std::optional<engine::Problem> call;
  if (const auto problem = settings.text("problem")) call = engine::problem_from_text(*problem);
  const auto orders =
      engine::sum_orders(subject, options, static_cast<Index>(settings.integer("keys", 2, 16384).value_or(256)), call);
  if (!json || !json->is_stdout()) std::cout << report::orders_text(text, subject.info(), orders);
  if (json) {
    auto object = report::orders_json(text, subject.info(), orders);
    object["exit"] = 0;
    write_json(*json, object);
  }
  return 0;
}

int probe_subject(const Settings& settings, const std::string& text) {
  std::unique_ptr<OutputFile> json;
  if (const auto path = settings.text("json")) json = std::make_unique<OutputFile>(*path, "--json");
  engine::ProbeOptions options;
  if (const auto name = settings.text("op")) {
    options.op = ops::find_op(*name);
    if (options.op == nullptr)
      throw usage_error(settings.origin("op") + " " + *name +
                        ": there is no such operation: `attest list ops` names them");
  }
  const auto subject = open_subject(settings, text);
  report::ProbeText how;
  how.all_evidence = settings.flag("evidence");
  if (const auto policy = settings.text("policy")) {
    const ops::Op& op = options.op != nullptr ? *options.op : ops::first_op(subject->info());
    options.policy = op.policy_from_text(*policy);
    how.rerun_options = " --policy " + report::shell_quoted(*policy);
  }
  if (const auto python = settings.text("python"); python && settings.origin("python").starts_with("--"))
    how.rerun_options += " --python " + report::shell_quoted(*python);
  if (settings.flag("tree")) return probe_orders(settings, text, *subject, options, json);
  for (const char* of_tree : {"keys", "problem"})
    if (settings.text(of_tree))
      throw usage_error(settings.origin(of_tree) + " is of `attest probe --tree` alone: give --tree, or leave it out");
  options.speed = !settings.flag("no-speed");
  const engine::ProbeReport seen = engine::probe(*subject, text, options);
  const auto exit = static_cast<int>(seen.exit());
  if (!json || !json->is_stdout()) std::cout << report::probe_text(seen, how);
  if (json) {
    auto object = report::probe_json(seen);
    object["exit"] = exit;
    write_json(*json, object);
  }
  return exit;
}

}  // namespace

void add_probe(CLI::App& app, Run& run) {
  auto* verb = app.add_subcommand(
      "probe", "what a subject really does: formats by stage, meaning of options, repetition, batches, speed");
  auto subject = std::make_shared<std::string>();
  auto settings = std::make_shared<Settings>();
  verb->add_option("SUBJECT", *subject, subject_help())->type_name("")->required();
  settings->declare(*verb, probe_options());
  verb->callback([=, &run] {
    run = [=] {
      settings->complete("probe");
      return probe_subject(*settings, *subject);
    };
  });
}

}  // namespace attest::cli
