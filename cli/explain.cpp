#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>

#include <nlohmann/json.hpp>

#include "cli/model.hpp"
#include "cli/outputs.hpp"
#include "cli/settings.hpp"
#include "cli/subject_option.hpp"
#include "cli/verbs.hpp"
#include "core/error.hpp"
#include "engine/compare.hpp"
#include "engine/explain/explain.hpp"
#include "engine/instance.hpp"
#include "report/explain.hpp"
#include "report/text.hpp"

namespace attest::cli {
namespace {

constexpr double most_seconds = 10;  // for a subject that answers slowly; work limits the rest

int explain_entry(const Settings& settings, const std::string& path) {
  if (is_model_entry(path)) return explain_model_entry(settings, path);
  std::unique_ptr<OutputFile> json;
  if (const auto file = settings.text("json")) json = std::make_unique<OutputFile>(*file, "--json");
  const engine::Entry entry = engine::read_entry(path);
  if (entry.seen == VerdictKind::poisoned)
    throw usage_error(
        fmt::format("{}: what one call does to the next is not explained: `attest replay` shows it", path));
  auto factory = open_subject_of_entry(settings, entry);
  auto peer = entry.subject_b ? open_second_of_entry(settings, entry) : open_peer();
  if (entry.subject_b) {
    const auto policy = entry.policy_given ? std::optional(policy_of(entry.contract)) : std::nullopt;
    engine::Compared both = engine::compared(entry.problem.op(), std::move(factory), std::move(peer), policy);
    factory = std::move(both.a);
    peer = std::move(both.b);
  }
  engine::Station station(*factory, peer.get(), entry.subject_b.has_value());
  engine::ExplainLimits limits;
  limits.seconds = most_seconds;
  limits.changes = static_cast<int>(settings.integer("changes", 0, 10'000).value_or(limits.changes));
  const engine::Explanation explanation = engine::explain(
      entry, station.bench(), {factory->info(), entry.problem.op().dtypes(factory->info()), {}}, limits);
  if (explanation.verdict.kind == VerdictKind::skip)
    throw usage_error(fmt::format("{} cannot be explained on {}: {}", path,
                                  settings.text("subject").value_or(entry.subject), explanation.verdict.reason));
  const Exit exit = explanation.fails ? Exit::found : Exit::held;
  if (!json || !json->is_stdout())
    std::cout << fmt::format("attest explain {}\n", report::printable(path))
              << report::explanation_text(entry, explanation);
  if (json) {
    auto object = report::explanation_json(entry, explanation);
    object["exit"] = static_cast<int>(exit);
    write_json(*json, object);
  }
  return static_cast<int>(exit);
}

}  // namespace

void add_explain(CLI::App& app, Run& run) {
  auto* verb = app.add_subcommand("explain", "a corpus file: where and why it fails");
  auto file = std::make_shared<std::string>();
  auto settings = std::make_shared<Settings>();
  verb->add_option("FILE", *file, "a corpus file")->type_name("")->required();
  std::vector<Option> options{
      {"subject", "SUBJECT", "run this subject instead of the one the file names"},
      {"subject-b", "SUBJECT", "of an entry of two subjects, the second one likewise"},
      {"on", "RUNTIME", "of an entry of a model whose runtime is a script that you have not run before: the script"},
      {"changes", "N", "neighbouring problems to try (48)"},
      {"json", "FILE", "one JSON object; - is stdout"}};
  for (const Option& option : subject_options()) options.push_back(option);
  options.push_back(second_python());
  settings->declare(*verb, options);
  verb->callback([=, &run] {
    run = [=] {
      settings->complete("explain");
      return explain_entry(*settings, *file);
    };
  });
}

}  // namespace attest::cli
