#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>

#include <nlohmann/json.hpp>

#include "cli/calibration_option.hpp"
#include "cli/model.hpp"
#include "cli/outputs.hpp"
#include "cli/settings.hpp"
#include "cli/subject_option.hpp"
#include "cli/verbs.hpp"
#include "core/error.hpp"
#include "engine/replay.hpp"
#include "report/models.hpp"
#include "report/text.hpp"

namespace attest::cli {
namespace {

void tell(const engine::ReplayResult& result, std::ostream& out) {
  out << fmt::format("{:<12} {}\n", name(result.outcome), report::printable(result.file.string()));
  if (result.outcome == engine::Replayed::as_expected) return;
  out << "             " << report::printable(result.sentence) << "\n";
  if (result.verdict && result.verdict->evidence)
    out << "             " << report::printable(report::evidence_line(*result.verdict->evidence)) << "\n";
}

// Entries of models, told as they come; the rest is for the engine.
struct OfModels {
  std::vector<std::filesystem::path> others;
  std::int64_t entries = 0, as_expected = 0, unexpected = 0, mended = 0, damaged = 0, not_run = 0;
};

OfModels replay_models(const Settings& settings, const std::vector<std::filesystem::path>& paths, bool quiet) {
  OfModels found;
  for (const std::filesystem::path& file : engine::corpus_files(paths)) {
    if (!is_model_entry(file)) {
      found.others.push_back(file);
      continue;
    }
    const models::Replayed result = replay_model_entry(settings, file);
    ++found.entries;
    std::ostream& out = quiet ? std::cerr : std::cout;
    if (!quiet || result.outcome != models::Outcome::as_expected)
      out << fmt::format("{:<12} {}\n", report::name(result.outcome), report::printable(file.string()));
    if (result.outcome != models::Outcome::as_expected)
      out << "             " << report::printable(result.sentence) << "\n";
    constexpr std::int64_t OfModels::*counters[] = {&OfModels::as_expected, &OfModels::unexpected, &OfModels::mended,
                                                    &OfModels::damaged, &OfModels::not_run};
    ++(found.*counters[static_cast<int>(result.outcome)]);
  }
  return found;
}

int replay_paths(const Settings& settings, const std::vector<std::string>& words) {
  const bool allow_missing = settings.flag("allow-missing");
  std::unique_ptr<OutputFile> json;
  if (const auto path = settings.text("json")) json = std::make_unique<OutputFile>(*path, "--json");
  const bool quiet = json && json->is_stdout();
  const std::vector<std::filesystem::path> paths(words.begin(), words.end());
  const auto peer = open_peer();
  const auto calibration = read_calibration(settings);
  const auto resolve = [&](const engine::Entry& entry) { return open_subject_of_entry(settings, entry); };
  const auto resolve_b = [&](const engine::Entry& entry) { return open_second_of_entry(settings, entry); };
  const OfModels of_models = replay_models(settings, paths, quiet);
  engine::ReplayReport report = engine::replay(
      of_models.others, resolve, peer.get(),
      [&](const engine::ReplayResult& result) {
        if (!quiet)
          tell(result, std::cout);
        else if (result.outcome != engine::Replayed::as_expected)
          tell(result, std::cerr);
      },
      settings.flag("expect-pass"), calibration.get(), resolve_b);
  report.entries += of_models.entries;
  report.as_expected += of_models.as_expected;
  report.unexpected += of_models.unexpected;
  report.mended += of_models.mended;
  report.damaged += of_models.damaged;
  report.not_run += of_models.not_run;
  const Exit exit = report.exit(allow_missing);
  if (!quiet)
    std::cout << fmt::format(
        "{} entries: {} as expected, {} unexpected, {} mended, {} damaged, {} unsupported, {} not run\n",
        report.entries, report.as_expected, report.unexpected, report.mended, report.damaged, report.unsupported,
        report.not_run);
  if (json)
    write_json(*json, {{"entries", report.entries},
                       {"as_expected", report.as_expected},
                       {"unexpected", report.unexpected},
                       {"mended", report.mended},
                       {"damaged", report.damaged},
                       {"unsupported", report.unsupported},
                       {"not_run", report.not_run},
                       {"exit", static_cast<int>(exit)}});
  if (report.entries == 0) throw usage_error("nothing was replayed: no .json file is there");
  return static_cast<int>(exit);
}

}  // namespace

void add_replay(CLI::App& app, Run& run) {
  auto* verb = app.add_subcommand("replay", "corpus files or folders: each entry must give what it expects");
  auto paths = std::make_shared<std::vector<std::string>>();
  auto settings = std::make_shared<Settings>();
  verb->add_option("PATH", *paths, "corpus files or folders")->type_name("")->required();
  std::vector<Option> options{
      {"subject", "SUBJECT",
       "run every entry on this subject; needed for a plug-in or script that you have not run before"},
      {"subject-b", "SUBJECT", "of an entry of two subjects (attest compare), the second one likewise"},
      {"on", "RUNTIME", "of an entry of a model whose runtime is a script that you have not run before: the script"},
      {"expect-pass", "", "every entry must pass, whatever it expects: regressions of a kernel of your own"},
      {"allow-missing", "",
       "entries that nothing could run, the subject not being there or not taking one of them, do not fail the run"},
      {"bisect", "", "125 where nothing could be tested"},
      {"json", "FILE", "counts as one JSON object; - is stdout"},
      calibration_option()};
  for (const Option& option : subject_options()) options.push_back(option);
  options.push_back(second_python());
  settings->declare(*verb, options);
  verb->callback([=, &run] {
    run = [=] {
      settings->complete("replay");
      return replay_paths(*settings, *paths);
    };
  });
}

}  // namespace attest::cli
