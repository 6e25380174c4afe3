// triage: groups the findings of a campaign once more, without drawing anything.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/campaign_option.hpp"
#include "cli/interrupt.hpp"
#include "cli/model.hpp"
#include "cli/outputs.hpp"
#include "cli/settings.hpp"
#include "cli/subject_option.hpp"
#include "cli/verbs.hpp"
#include "core/error.hpp"
#include "engine/bucket.hpp"
#include "engine/campaign.hpp"
#include "engine/campaign_folder.hpp"
#include "engine/cluster.hpp"
#include "models/entry.hpp"
#include "models/folder.hpp"
#include "report/models.hpp"
#include "report/observers.hpp"
#include "report/text.hpp"

namespace attest::cli {
namespace {

namespace fs = std::filesystem;

int tell(const engine::Summary& summary, OutputFile* json) {
  if (json) write_json(*json, report::summary_json(summary));
  return static_cast<int>(summary.exit());
}

// A path is never taken from a file: it must be given once more.
std::string subject_of(const Settings& settings, const engine::CampaignOptions& options) {
  const auto given = settings.text("subject");
  if (given && *given != options.subject)
    throw usage_error("--subject " + *given + " is not the subject of this campaign, which is " + options.subject);
  if (!given && engine::portable_subject(options.subject) != options.subject)
    throw usage_error("the campaign's subject is a path, and a path is never taken from a file: give it as --subject " +
                      options.subject);
  return options.subject;
}

int triage_campaign(const Settings& settings, const fs::path& folder, OutputFile* json) {
  engine::CampaignOptions options = engine::campaign_in(folder);
  options.verb = "triage";
  options.cases = 0;
  options.jobs = read_jobs(settings);
  options.corpus = folder / "corpus";
  options.known = read_known(settings);
  if (const auto calls = settings.integer("shrink-budget", 1, 1'000'000'000))
    options.shrink.calls = static_cast<std::int64_t>(*calls);
  auto subject = open_subject(settings, subject_of(settings, options), folder / "logs", options.policy_text);
  const Origin origin = origin_of(*subject);
  options.subject_file = origin.file;
  options.subject_name = origin.function;
  subject = held_as_begun(std::move(subject), folder, options);
  const auto peer = open_peer();
  options.interrupt = end_on_interrupt();
  const auto observer = report::terminal_observer(
      {std::cout, std::cerr, progress_is_live(), json != nullptr && json->is_stdout(), read_look(settings)});
  const engine::Summary summary = engine::run_campaign(*subject, peer.get(), options, *observer);
  keep_record(summary, subject->info(), options);
  return tell(summary, json);
}

// Groups the reproducers of a corpus into defects. Without the problems of a campaign nothing but the reproducers tells
// which are one.
int triage_corpus(const fs::path& folder, OutputFile* json, const report::Look& look) {
  engine::Summary summary;
  summary.verb = "triage";
  std::vector<models::EntryFile> of_models;
  for (const fs::path& file : engine::corpus_files({folder})) {
    if (is_model_entry(file)) {
      of_models.push_back({models::read_entry(file), file});
      continue;
    }
    engine::Finding finding;
    finding.entry = engine::read_entry(file);
    if (finding.entry.expect != VerdictKind::fail) continue;
    finding.case_number = summary.findings.size();
    finding.reproducer = file.string();
    const std::string& subject = finding.entry.subject;  // none where there are several
    summary.subject = summary.findings.empty() || summary.subject == subject ? subject : "";
    summary.findings.push_back(std::move(finding));
  }
  const std::vector<models::EntryDefect> defects = models::grouped(std::move(of_models));
  if (summary.findings.empty() && defects.empty())
    throw usage_error(folder.string() + " holds neither a campaign nor a reproducer of a failure");
  summary.defects = engine::cluster(summary.findings, {engine::CaseTable(Supports::everything()), {}, {}});
  if (json == nullptr || !json->is_stdout())
    std::cout << (summary.findings.empty() ? "" : report::triage_text(summary, look))
              << report::triage_text(defects, look);
  if (json) {
    nlohmann::ordered_json object = report::summary_json(summary);
    object["models"] = report::triage_json(defects);
    write_json(*json, object);
  }
  return static_cast<int>(Exit::found);
}

// Someone who points above the campaigns means one of them.
void refuse_folder_of_campaigns(const fs::path& folder) {
  std::vector<std::string> campaigns;
  std::error_code unreadable;
  for (const fs::directory_entry& below : fs::directory_iterator(folder))
    if (fs::exists(below.path() / "campaign.json", unreadable)) campaigns.push_back(below.path().string());
  if (campaigns.empty()) return;
  std::ranges::sort(campaigns);
  throw usage_error(fmt::format("{} holds campaigns and is none itself: give one of {}", folder.string(),
                                fmt::join(campaigns, ", ")));
}

int triage(const Settings& settings, const std::string& text) {
  const fs::path folder = text;
  if (!fs::is_directory(folder)) throw usage_error(text + " is no folder: triage takes a campaign folder or a corpus");
  std::unique_ptr<OutputFile> json;
  if (const auto path = settings.text("json")) json = std::make_unique<OutputFile>(*path, "--json");
  if (fs::exists(folder / "campaign.json")) {
    if (models::is_campaign(folder)) return triage_corpus(folder / "corpus", json.get(), read_look(settings));
    return triage_campaign(settings, folder, json.get());
  }
  refuse_folder_of_campaigns(folder);
  return triage_corpus(folder, json.get(), read_look(settings));
}

}  // namespace

void add_triage(CLI::App& app, Run& run) {
  auto* verb = app.add_subcommand("triage", "what the failures of a campaign folder, or of a corpus, come down to");
  auto folder = std::make_shared<std::string>();
  auto settings = std::make_shared<Settings>();
  verb->add_option("DIR", *folder, "a campaign folder (fuzz -o DIR), or a corpus")->type_name("")->required();
  std::vector<Option> options{{"subject", "SUBJECT", "the campaign's subject, where that is a path"},
                              {"shrink-budget", "CALLS", "subject calls to spend on a failure that waits (1000)"},
                              {"known", "PATH", "buckets of that corpus are known"},
                              {"jobs", "N", "threads (all cores)"},
                              {"json", "FILE", "one JSON object at the end; - is stdout"}};
  for (const Option& option : look_options()) options.push_back(option);
  for (const Option& option : subject_options()) options.push_back(option);
  settings->declare(*verb, options);
  verb->callback([=, &run] {
    run = [=] {
      settings->complete("triage");
      return triage(*settings, *folder);
    };
  });
}

}  // namespace attest::cli
