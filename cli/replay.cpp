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
#include "engine/evidence.hpp"
#include "engine/replay.hpp"
#include "report/ci.hpp"
#include "report/models.hpp"
#include "report/text.hpp"

namespace attest::cli {
namespace {

// "as_expected  FILE", the outcome in the colour of a success or a failure.
std::string outcome_line(const report::Look& look, std::string_view outcome, bool failed, bool held,
                         const std::filesystem::path& file) {
  const std::string column = fmt::format("{:<12}", outcome);
  const std::string word = failed ? report::painted(look, report::Part::failed, column)
                           : held ? report::painted(look, report::Part::held, column)
                                  : column;
  return fmt::format("{} {}\n", word, report::printable(file.string()));
}

void tell(const engine::ReplayResult& result, std::ostream& out, const report::Look& look) {
  out << outcome_line(look, name(result.outcome), result.outcome == engine::Replayed::unexpected,
                      result.outcome == engine::Replayed::as_expected, result.file);
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

// An entry that did not give what it expects, for --json.
nlohmann::ordered_json failed_json(const engine::ReplayResult& result) {
  nlohmann::ordered_json object{{"file", result.file.string()}, {"reason", result.sentence}};
  if (result.entry) {
    object["property"] = result.entry->property;
    object["problem"] = to_text(engine::portable_problem(result.entry->problem));
  }
  if (result.verdict && result.verdict->evidence) object["witness"] = engine::to_json(*result.verdict->evidence);
  return object;
}

using report::ReplayedCase;

// One case of a CI report. An entry that nothing could run is an error unless that is allowed.
ReplayedCase case_of(const engine::ReplayResult& result, bool allow_missing) {
  using enum engine::Replayed;
  using Outcome = ReplayedCase::Outcome;
  ReplayedCase one{result.file.string(), {}, {}, result.bucket, result.sentence, Outcome::passed};
  if (result.entry) {
    one.subject = result.entry->subject;
    one.property = result.entry->property;
  }
  if (result.outcome == unsupported || result.outcome == not_here || (result.outcome == not_run && allow_missing))
    one.outcome = Outcome::skipped;
  else if (result.outcome == damaged || result.outcome == not_run)
    one.outcome = Outcome::error;
  else if (result.outcome != as_expected)
    one.outcome = Outcome::failed;
  return one;
}

ReplayedCase case_of(const std::filesystem::path& file, const models::Replayed& result, bool allow_missing) {
  using Outcome = ReplayedCase::Outcome;
  ReplayedCase one{file.string(), "model", {}, {}, result.sentence, Outcome::failed};
  if (result.outcome == models::Outcome::as_expected) one.outcome = Outcome::passed;
  if (result.outcome == models::Outcome::damaged) one.outcome = Outcome::error;
  if (result.outcome == models::Outcome::not_run) one.outcome = allow_missing ? Outcome::skipped : Outcome::error;
  return one;
}

OfModels replay_models(const Settings& settings, const std::vector<std::filesystem::path>& paths, bool quiet,
                       const report::Look& look, std::vector<ReplayedCase>& cases) {
  OfModels found;
  for (const std::filesystem::path& file : engine::corpus_files(paths)) {
    if (!is_model_entry(file)) {
      found.others.push_back(file);
      continue;
    }
    const models::Replayed result = replay_model_entry(settings, file);
    ++found.entries;
    cases.push_back(case_of(file, result, settings.flag("allow-missing")));
    std::ostream& out = quiet ? std::cerr : std::cout;
    if (!quiet || result.outcome != models::Outcome::as_expected)
      out << outcome_line(quiet ? report::Look{} : look, report::name(result.outcome),
                          result.outcome == models::Outcome::unexpected, result.outcome == models::Outcome::as_expected,
                          file);
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
  std::unique_ptr<OutputFile> junit, sarif;
  if (const auto path = settings.text("junit")) junit = std::make_unique<OutputFile>(*path, "--junit");
  if (const auto path = settings.text("sarif")) sarif = std::make_unique<OutputFile>(*path, "--sarif");
  const auto on_stdout = [](const auto& file) { return file && file->is_stdout(); };
  if (on_stdout(json) + on_stdout(junit) + on_stdout(sarif) > 1)
    throw usage_error("--json, --junit and --sarif cannot share stdout: give all but one a file");
  const bool quiet = on_stdout(json) || on_stdout(junit) || on_stdout(sarif);
  const report::Look look = read_look(settings);
  std::vector<ReplayedCase> cases;
  auto failed = nlohmann::ordered_json::array();
  const std::vector<std::filesystem::path> paths(words.begin(), words.end());
  const auto peer = open_peer();
  const auto resolve = [&](const engine::Entry& entry) {
    return has_subject(settings, entry) ? open_subject_of_entry(settings, entry) : nullptr;
  };
  const auto resolve_b = [&](const engine::Entry& entry) { return open_second_of_entry(settings, entry); };
  const OfModels of_models = replay_models(settings, paths, quiet, look, cases);
  engine::ReplayReport counts = engine::replay(
      of_models.others, resolve, peer.get(),
      [&](const engine::ReplayResult& result) {
        cases.push_back(case_of(result, allow_missing));
        if (cases.back().outcome == ReplayedCase::Outcome::failed) failed.push_back(failed_json(result));
        if (!quiet)
          tell(result, std::cout, look);
        else if (result.outcome != engine::Replayed::as_expected)
          tell(result, std::cerr, {});
      },
      settings.flag("expect-pass"), resolve_b);
  counts.entries += of_models.entries;
  counts.as_expected += of_models.as_expected;
  counts.unexpected += of_models.unexpected;
  counts.mended += of_models.mended;
  counts.damaged += of_models.damaged;
  counts.not_run += of_models.not_run;
  const Exit exit = counts.exit(allow_missing);
  if (!quiet)
    std::cout << fmt::format(
        "{}: {} as expected, {} unexpected, {} mended, {} not here, {} damaged, {} unsupported, {} not run\n",
        report::counted(static_cast<std::uint64_t>(counts.entries), "entry"), counts.as_expected, counts.unexpected,
        counts.mended, counts.not_here, counts.damaged, counts.unsupported, counts.not_run);
  if (json)
    write_json(*json, {{"entries", counts.entries},
                       {"as_expected", counts.as_expected},
                       {"unexpected", counts.unexpected},
                       {"mended", counts.mended},
                       {"not_here", counts.not_here},
                       {"damaged", counts.damaged},
                       {"unsupported", counts.unsupported},
                       {"not_run", counts.not_run},
                       {"failed", failed},
                       {"exit", static_cast<int>(exit)}});
  if (junit) write_text(*junit, report::junit_xml(cases));
  if (sarif) write_json(*sarif, report::sarif_json(cases));
  if (counts.entries == 0) throw usage_error("nothing was replayed: no .json file is there");
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
      {"junit", "FILE", "JUnit's XML: a test case for each entry"},
      {"sarif", "FILE", "SARIF 2.1.0: a result for each entry that did not give what it expects"},
      color_option()};
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
