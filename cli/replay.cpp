#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>

#include <nlohmann/json.hpp>

#include "cli/calibration_option.hpp"
#include "cli/outputs.hpp"
#include "cli/settings.hpp"
#include "cli/subject_option.hpp"
#include "cli/verbs.hpp"
#include "core/error.hpp"
#include "engine/replay.hpp"
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
  const engine::ReplayReport report = engine::replay(
      paths, resolve, peer.get(),
      [&](const engine::ReplayResult& result) {
        if (!quiet)
          tell(result, std::cout);
        else if (result.outcome != engine::Replayed::as_expected)
          tell(result, std::cerr);
      },
      settings.flag("expect-pass"), calibration.get(), resolve_b);
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
