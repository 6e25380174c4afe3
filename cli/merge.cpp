// merge: the union of campaign folders (shards of one campaign), or of corpora. Starts no subject.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/outputs.hpp"
#include "cli/settings.hpp"
#include "cli/verbs.hpp"
#include "core/error.hpp"
#include "engine/merge.hpp"
#include "report/text.hpp"

namespace attest::cli {
namespace {

namespace fs = std::filesystem;

std::string told(const engine::Merged& merged, const fs::path& out, bool campaigns) {
  std::string text =
      fmt::format("{}: {} of {} in {}\n", report::printable(out.string()), report::grouped(merged.written),
                  report::counted(merged.entries, "reproducer"), report::counted(merged.folders, "folder"));
  if (merged.renewed > 0) text += fmt::format("  {} had been edited, and have their digest renewed\n", merged.renewed);
  if (!campaigns) return text;
  text += merged.whole ? "  all shards, equally far: `attest fuzz --no-avoid` with the options of any goes on with it\n"
                       : fmt::format("  not the whole campaign: {}\n", merged.missing);
  return text + fmt::format("  {} groups them into defects\n", report::triage_line(out, merged.subject));
}

int merge(const Settings& settings, const std::vector<std::string>& words) {
  const auto out = settings.text("output");
  if (!out) throw usage_error("merge needs -o DIR: where the union goes");
  std::unique_ptr<OutputFile> json;
  if (const auto path = settings.text("json")) json = std::make_unique<OutputFile>(*path, "--json");
  const std::vector<fs::path> folders(words.begin(), words.end());
  for (const fs::path& folder : folders)
    if (!fs::is_directory(folder))
      throw usage_error(folder.string() + " is no folder: merge takes those of campaigns, or corpora");
  const bool campaigns = fs::exists(folders.front() / "campaign.json");
  const engine::MergeOptions options{*out, settings.flag("minimise")};
  const engine::Merged merged =
      campaigns ? engine::merge_campaigns(folders, options) : engine::merge_corpora(folders, options);
  for (const std::string& sentence : merged.left_out)
    std::cerr << "attest: left out: " << report::printable(sentence) << "\n";
  if (json)
    write_json(*json, {{"folders", merged.folders},
                       {"entries", merged.entries},
                       {"written", merged.written},
                       {"renewed", merged.renewed},
                       {"left_out", merged.left_out},
                       {"whole", merged.whole}});
  if (!json || !json->is_stdout()) std::cout << told(merged, *out, campaigns);
  if (!merged.left_out.empty()) return static_cast<int>(Exit::usage);
  return static_cast<int>(campaigns && !merged.whole ? Exit::incomplete : Exit::held);
}

}  // namespace

void add_merge(CLI::App& app, Run& run) {
  auto* verb = app.add_subcommand("merge", "the union of campaign folders, or of corpora, whatever their order");
  auto folders = std::make_shared<std::vector<std::string>>();
  auto settings = std::make_shared<Settings>();
  verb->add_option("DIR", *folders, "campaign folders of one campaign's shards, or corpora")->type_name("")->required();
  settings->declare(*verb, {{"output", "DIR", "where the union goes: a folder that is not there yet, or is empty", "o"},
                            {"minimise", "", "of reproducers that differ in the law alone the smallest"},
                            {"json", "FILE", "counts as one JSON object; - is stdout"}});
  verb->callback([=, &run] {
    run = [=] {
      settings->complete("merge");
      return merge(*settings, *folders);
    };
  });
}

}  // namespace attest::cli
