// compare: one stream of problems on two subjects.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>

#include "cli/campaign_option.hpp"
#include "cli/compare_saved.hpp"
#include "cli/interrupt.hpp"
#include "cli/subject_option.hpp"
#include "cli/verbs.hpp"
#include "core/error.hpp"
#include "engine/compare.hpp"

namespace attest::cli {
namespace {

std::vector<Option> compare_options() {
  std::vector<Option> options = campaign_options();
  options.push_back({"bits", "", "a bit that differs is a difference, too, of a law of its own"});
  options.push_back({"forever", "", "until interrupted", "", "How much"});
  options.push_back({"problem", "TEXT", "this one problem instead of random ones", "", "What is drawn"});
  for (const Option& option : subject_options()) options.push_back(option);
  options.push_back(second_python());
  for (const Option& option : saved_side_options()) options.push_back(option);
  return options;
}

bool is_folder(const std::string& text) {
  std::error_code error;
  return std::filesystem::is_directory(text, error);
}

int compare(const Settings& settings, const std::string& a, const std::string& b) {
  if (is_folder(a) && is_folder(b))
    throw usage_error(
        "A and B are both folders: one of them must be a subject that can run (attest judge takes saved "
        "outputs alone)");
  if (is_folder(a)) return compare_with_saved(settings, a, b, true);
  if (is_folder(b)) return compare_with_saved(settings, b, a, false);
  refuse_saved_options(settings);
  const auto problem = settings.text("problem");
  const Outputs outputs(settings);
  engine::CampaignOptions options;
  options.verb = "compare";
  options.subject = a;
  if (problem)
    read_problem(settings, options);
  else
    read_campaign(settings, true, folder_name(a) + "-and-" + folder_name(b), options);
  using enum engine::LawChoice::Compare;
  options.laws.compare = settings.flag("bits") ? bits : bound;
  const auto logs = [&](const char* side) {
    return options.folder.empty() ? options.folder : options.folder / "logs" / side;
  };
  auto first = open_subject(settings, a, logs("A"));
  auto second = open_second(settings, b, logs("B"));
  const Origin of_a = origin_of(*first), of_b = origin_of(*second);
  options.subject_file = of_a.file;
  options.subject_name = of_a.function;
  options.subject_b = {b, of_b.file, of_b.function};
  read_operation(settings, first->info(), options);
  const engine::Compared both = engine::compared(*options.op, std::move(first), std::move(second), options.policy);
  if (problem) return run_problem(*problem, options, *both.a, *both.b, outputs);
  read_pace(settings, both.a->info(), &both.b->info(), options);
  options.interrupt = end_on_interrupt();
  const auto observer = outputs.observer();
  const engine::Summary summary = engine::run_campaign(*both.a, both.b.get(), options, *observer);
  keep_record(summary, both.a->info(), options);
  return finish(summary, both.a->info(), outputs);
}

}  // namespace

void add_compare(CLI::App& app, Run& run) {
  auto* verb =
      app.add_subcommand("compare", "run two subjects on the same problems: where they differ beyond both bounds");
  auto settings = std::make_shared<Settings>();
  auto a = std::make_shared<std::string>(), b = std::make_shared<std::string>();
  verb->add_option("A", *a, subject_help())->type_name("")->required();
  verb->add_option("B", *b, "the other, said as A is; one of the two may be a folder of saved calls")
      ->type_name("")
      ->required();
  settings->declare(*verb, compare_options());
  verb->callback([=, &run] {
    run = [=] {
      settings->complete("compare");
      return compare(*settings, *a, *b);
    };
  });
}

}  // namespace attest::cli
