// fuzz and check: one campaign, two sets of defaults.
#include <CLI/CLI.hpp>
#include <memory>

#include "cli/campaign_option.hpp"
#include "cli/interrupt.hpp"
#include "cli/model.hpp"
#include "cli/subject_option.hpp"
#include "cli/verbs.hpp"
#include "core/error.hpp"

namespace attest::cli {
namespace {

std::vector<Option> shared_options() {
  std::vector<Option> options = campaign_options();
  for (const Option& option :
       under("Laws", {{"property", "GLOB,...", "exactly the laws that match, all of them on every problem"},
                      {"laws", "K|all", "further laws per problem besides the policy bound (2)"},
                      {"no-statistics", "", "only laws that prove what they find"},
                      {"continue-after-failure", "", "go on after the first failing case; fuzz does so anyway"}}))
    options.push_back(option);
  for (const Option& option : probe_first_options()) options.push_back(option);
  for (const Option& option : model_options()) options.push_back(option);
  return options;
}

std::vector<Option> fuzz_options() {
  std::vector<Option> options = shared_options();
  options.push_back({"forever", "", "until interrupted", "", "How much"});
  for (const Option& option : subject_options()) options.push_back(option);
  return options;
}

std::vector<Option> check_options() {
  std::vector<Option> options = shared_options();
  options.push_back({"problem", "TEXT", "this one problem instead of random ones", "", "What is drawn"});
  for (const Option& option : subject_options()) options.push_back(option);
  return options;
}

engine::LawChoice read_laws(const Settings& settings) {
  engine::LawChoice choice;
  choice.statistics = !settings.flag("no-statistics");
  if (settings.text("laws") == "all")
    choice.further = std::nullopt;
  else if (const auto laws = settings.integer("laws", 0, 1000))
    choice.further = *laws;
  if (const auto glob = settings.text("property")) {
    if (glob->empty())
      throw usage_error(settings.origin("property") + " is empty: it must name a property, or several as in scale-*");
    choice.property_glob = *glob;
  }
  engine::validate(choice);
  return choice;
}

int run_verb(const Settings& settings, const std::string& verb, const std::string& subject_text) {
  if (names_model(subject_text)) return run_model(settings, verb, subject_text);
  refuse_model_options(settings);
  const bool fuzz = verb == "fuzz";
  const auto problem = fuzz ? std::nullopt : settings.text("problem");
  const Outputs outputs(settings);
  engine::CampaignOptions options;
  options.verb = verb;
  options.subject = subject_text;
  if (problem)
    read_problem(settings, options);
  else
    read_campaign(settings, fuzz, folder_name(subject_text), options);
  options.laws = read_laws(settings);
  auto subject =
      open_subject(settings, subject_text, options.folder.empty() ? options.folder : options.folder / "logs");
  read_operation(settings, subject->info(), options);
  const auto peer = open_peer();
  const Origin origin = origin_of(*subject);
  options.subject_file = origin.file;
  options.subject_name = origin.function;
  if (!problem) read_pace(settings, subject->info(), nullptr, options);
  subject = probed_first(settings, std::move(subject), fuzz, options);
  if (problem) return run_problem(*problem, options, *subject, *peer, outputs);
  options.interrupt = end_on_interrupt();
  const auto observer = outputs.observer();
  const engine::Summary summary = engine::run_campaign(*subject, peer.get(), options, *observer);
  keep_record(summary, subject->info(), options);
  return finish(summary, subject->info(), outputs);
}

}  // namespace

void add_fuzz(CLI::App& app, Run& run) {
  auto* verb = app.add_subcommand("fuzz", "draw random problems until the time is over, shrink and store what fails");
  auto settings = std::make_shared<Settings>();
  auto subject = std::make_shared<std::string>("builtin:fused");
  verb->add_option("SUBJECT", *subject, subject_help())->type_name("");
  settings->declare(*verb, fuzz_options());
  verb->callback([=, &run] {
    run = [=] {
      settings->complete("fuzz");
      return run_verb(*settings, "fuzz", *subject);
    };
  });
}

void add_check(CLI::App& app, Run& run) {
  auto* verb = app.add_subcommand(
      "check", "test a subject: bounded and deterministic, for CTest and CI (--seed 1 --cases 1000)");
  auto settings = std::make_shared<Settings>();
  auto subject = std::make_shared<std::string>();
  verb->add_option("SUBJECT", *subject, subject_help())->type_name("")->required();
  settings->declare(*verb, check_options());
  verb->callback([=, &run] {
    run = [=] {
      settings->complete("check");
      return run_verb(*settings, "check", *subject);
    };
  });
}

}  // namespace attest::cli
