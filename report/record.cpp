#include "report/record.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "core/json_text.hpp"
#include "engine/corpus.hpp"
#include "engine/file.hpp"
#include "engine/summary.hpp"
#include "models/folder.hpp"
#include "report/html_parts.hpp"
#include "report/models.hpp"
#include "report/text.hpp"

namespace attest::report {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using nlohmann::ordered_json;

constexpr std::uintmax_t largest_record = std::uintmax_t{1} << 28, largest_log = std::uintmax_t{1} << 32;

json object_in(const fs::path& file) {
  try {
    json object = parse_json(engine::read_file(file, largest_record));
    if (!object.is_object()) throw usage_error(file.string() + ": the file is damaged: it holds no object");
    return object;
  } catch (const json::exception&) {
    throw usage_error(file.string() + ": the file is damaged");
  }
}

std::string damaged(const fs::path& folder, std::string_view key) {
  return fmt::format("{}: the file is damaged: {} is not what it should be", (folder / "summary.json").string(), key);
}

// The counts of the last whole line.
json last_counts(const fs::path& file, bool of_model) {
  if (!fs::exists(file)) return json::object();
  const std::string text = engine::read_file(file, largest_log);
  std::size_t end = text.rfind('\n');
  if (end == std::string::npos) return json::object();
  const std::size_t before = end == 0 ? std::string::npos : text.rfind('\n', end - 1);
  const std::size_t begin = before == std::string::npos ? 0 : before + 1;
  try {
    const json line = parse_json(std::string_view(text).substr(begin, end - begin));
    return of_model ? line : line.at("summary");
  } catch (const json::exception&) {
    throw usage_error(file.string() + ": its last line is damaged");
  }
}

// The record has reproducers alone: only the end of a campaign groups them into defects.
json unfinished(const fs::path& folder, const json& campaign, const json& counts) {
  engine::Summary summary;
  summary.verb = "fuzz";
  summary.subject = campaign.at("subject").get<std::string>();
  summary.subject_version = campaign.at("version").get<std::string>();
  summary.policy = campaign.at("policy").get<std::string>();
  summary.seed = campaign.at("seed").get<std::uint64_t>();
  summary.repeat = campaign.at("r").get<std::uint64_t>();
  summary.assume = campaign.at("assume").get<std::string>();
  if (const auto shard = campaign.at("shard").get<std::string>(); shard != "1/1") summary.shard = shard;
  if (campaign.contains("op"))
    if (const engine::Op* op = ops::find_op(campaign.at("op").get<std::string>())) summary.op = op;
  if (counts.contains("cases")) engine::state_from_json(counts, summary);
  if (fs::is_directory(folder / "corpus"))
    for (const fs::path& file : engine::corpus_files({folder / "corpus"})) {
      engine::Finding finding;
      finding.entry = engine::read_entry(file);
      finding.case_number = finding.entry.case_number.value_or(0);
      finding.reproducer = file.string();
      summary.findings.push_back(std::move(finding));
    }
  json record = summary_json(summary);
  record["unfinished"] = fmt::format(
      "The campaign has not come to its end: these are its counts so far and its reproducers. `{}` groups them into "
      "defects and goes on with what waits.",
      triage_line(folder, summary.subject));
  return record;
}

json unfinished_of_model(const fs::path& folder) {
  models::Summary summary = models::summary_in(folder);
  if (summary.model.empty()) summary.model = folder.parent_path().filename();  // attest-out/MODEL/UTC-SEED
  json record = summary_json(summary);
  record["unfinished"] =
      "The campaign has not come to its end: these are its counts so far and its defects, without the conditions under "
      "which they show. The same command with -o and this folder goes on.";
  return record;
}

}  // namespace

void write_record(const fs::path& folder, const ordered_json& record) {
  engine::write_file(folder / "summary.json", json_text(record, 1) + "\n");
}

json read_record(const fs::path& folder) {
  if (!fs::exists(folder / "campaign.json"))
    throw usage_error(folder.string() + " holds no campaign: report takes the folder of one (fuzz -o DIR)");
  const json campaign = object_in(folder / "campaign.json");
  try {
    const json counts = last_counts(folder / "progress.jsonl", is_of_model(campaign));
    if (fs::exists(folder / "summary.json")) {
      json record = object_in(folder / "summary.json");
      const bool of_model = is_of_model(record);
      if (of_model != is_of_model(campaign)) throw usage_error(damaged(folder, "kind"));
      using Keys = std::vector<const char*>;
      for (const char* key : of_model ? Keys{"verdicts", "skipped"} : Keys{"verdicts", "skipped", "vacuous"})
        if (!record.at(key).is_object()) throw usage_error(damaged(folder, key));
      for (const char* key : of_model ? Keys{"findings"} : Keys{"findings", "defects"})
        if (!record.at(key).is_array()) throw usage_error(damaged(folder, key));
      if (!counts.contains("cases") || record.at("cases") == counts.at("cases")) return record;
    }
    return is_of_model(campaign) ? unfinished_of_model(folder) : unfinished(folder, campaign, counts);
  } catch (const json::exception& error) {
    throw usage_error(
        fmt::format("{} is damaged, or holds no campaign of problems: {}", folder.string(), error.what()));
  }
}

}  // namespace attest::report
