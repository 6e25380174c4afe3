#include "engine/campaign_folder.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "engine/evidence.hpp"
#include "engine/file.hpp"

namespace attest::engine {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using nlohmann::ordered_json;

constexpr int folder_format = 1;
constexpr std::uintmax_t largest_log = std::uintmax_t{1} << 32;

// Paths may hold bytes that are no text; they are replaced.
std::string text_of(const ordered_json& object, int indent = -1) {
  return object.dump(indent, ' ', false, ordered_json::error_handler_t::replace);
}

// What makes two campaigns the same: equal streams of problems, held against equal laws under equal contracts.
ordered_json identity(const CampaignOptions& options, const SubjectInfo& info) {
  ordered_json object;
  object["format"] = folder_format;
  object["subject"] = options.subject;
  object["version"] = info.version;
  ordered_json contracts = ordered_json::object();
  for (const Format dtype : info.dtypes) contracts[std::string(name(dtype))] = to_json(info.contract(dtype));
  object["contract"] = std::move(contracts);
  object["policy"] = options.policy ? to_text(*options.policy) : "";
  object["seed"] = options.seed;
  object["r"] = options.repeat;
  object["laws"] = options.laws.further ? ordered_json(*options.laws.further) : ordered_json("all");
  object["property"] = options.laws.property_glob;
  object["assume"] = options.assume ? options.assume->text() : "";
  if (options.calibration) object["calibration"] = hex64(digest_of(text_of(oracle::to_json(*options.calibration))));
  object["shard"] = fmt::format("{}/{}", options.shard.index, options.shard.count);
  return object;
}

// Calls `read` for each whole line; cuts off a last line that a kill left unfinished.
void for_each_line(const fs::path& file, const std::function<void(const json&)>& read) {
  if (!fs::exists(file)) return;
  const std::string text = read_file(file, largest_log);
  std::size_t number = 0, begin = 0;
  for (std::size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', begin)) {
    ++number;
    try {
      read(json::parse(std::string_view(text).substr(begin, end - begin)));
    } catch (const json::exception&) {
      throw usage_error(fmt::format("{}:{}: the line is damaged: start a new campaign folder", file.string(), number));
    }
    begin = end + 1;
  }
  if (begin != text.size()) fs::resize_file(file, begin);
}

int open_or_throw(const fs::path& file, int flags) {
  const int descriptor = ::open(file.c_str(), flags | O_CLOEXEC, 0644);
  if (descriptor < 0) throw usage_error(file.string() + " cannot be written");
  return descriptor;
}

}  // namespace

CampaignFolder::CampaignFolder(const CampaignOptions& options, const SubjectInfo& info, Summary& summary,
                               Triage& triage)
    : folder_(options.folder) {
  require_writable(folder_);
  lock_ = open_or_throw(folder_ / "lock", O_RDWR | O_CREAT);
  try {
    if (::flock(lock_, LOCK_EX | LOCK_NB) != 0)
      throw usage_error(folder_.string() + " is in use by another campaign: wait for it, or name another folder");
    check_identity(options, info);
    restore(summary, triage);
    restore_findings(summary);
    progress_ = open_or_throw(folder_ / "progress.jsonl", O_WRONLY | O_CREAT | O_APPEND);
    findings_ = open_or_throw(folder_ / "findings.jsonl", O_WRONLY | O_CREAT | O_APPEND);
  } catch (...) {
    ::close(lock_);
    if (progress_ >= 0) ::close(progress_);
    throw;
  }
}

CampaignFolder::~CampaignFolder() {
  for (const int file : {findings_, progress_, lock_}) ::close(file);
}

void CampaignFolder::check_identity(const CampaignOptions& options, const SubjectInfo& info) {
  const fs::path file = folder_ / "campaign.json";
  const ordered_json ours = ordered_json::parse(text_of(identity(options, info)));  // as it comes back from a file
  if (!fs::exists(file)) return write_file(file, text_of(ours, 2) + "\n");
  ordered_json theirs;
  try {
    theirs = ordered_json::parse(read_file(file, 1 << 20));
  } catch (const json::exception&) {
    throw usage_error(file.string() + " is damaged: start a new campaign folder");
  }
  for (const auto& [key, value] : ours.items())
    if (!theirs.contains(key) || theirs[key] != value)
      throw usage_error(
          fmt::format("{} holds another campaign: its {} is {}, here it is {}: name another folder, or the "
                      "same options",
                      folder_.string(), key, theirs.contains(key) ? theirs[key].dump() : "absent", value.dump()));
}

void CampaignFolder::restore(Summary& summary, Triage& triage) {
  json last;
  for_each_line(folder_ / "progress.jsonl", [&](const json& line) { last = line; });
  if (last.is_null()) return;
  try {
    state_from_json(last.at("summary"), summary);
    for (const auto& [signature, state] : last.at("triage").items())
      triage.states[signature] = {state.at(0).get<std::string>(), state.at(1).get<std::uint64_t>(),
                                  state.at(2).get<std::uint64_t>()};
    for (const auto& [bucket, failures] : last.at("failures").items()) {
      Finding finding;
      finding.entry.bucket = bucket;
      finding.failures = failures.get<std::uint64_t>();
      summary.findings.push_back(std::move(finding));
    }
  } catch (const json::exception&) {
    throw usage_error((folder_ / "progress.jsonl").string() +
                      ": its last line is damaged: start a new campaign folder");
  }
}

// The latest reproducer of each bucket. One that came after the last commit counts no failure yet: its case is run again.
void CampaignFolder::restore_findings(Summary& summary) {
  const fs::path file = folder_ / "findings.jsonl";
  for_each_line(file, [&](const json& line) {
    if (!line.contains("entry")) return;
    Finding finding;
    finding.entry = entry_from_file_text(line.at("entry").get<std::string>(), file.string());
    finding.case_number = line.at("case").get<std::uint64_t>();
    finding.seconds_to_first = line.at("seconds_to_first").get<double>();
    finding.cases_to_first = line.at("cases_to_first").get<std::uint64_t>();
    finding.also = line.at("also").get<std::vector<std::string>>();
    finding.reproducer = line.at("reproducer").get<std::string>();
    finding.failures = 0;
    const auto same = [&](const Finding& other) { return other.entry.bucket == finding.entry.bucket; };
    const auto known = std::ranges::find_if(summary.findings, same);
    if (known == summary.findings.end()) {
      summary.findings.push_back(std::move(finding));
    } else {
      finding.failures = known->failures;
      *known = std::move(finding);
    }
  });
  std::ranges::sort(summary.findings, {}, &Finding::case_number);
}

void CampaignFolder::append(int file, const std::string& line) {
  std::string_view rest = line;
  while (!rest.empty()) {
    const ssize_t written = ::write(file, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) throw usage_error(folder_.string() + " cannot be written: is the disk full?");
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
}

void CampaignFolder::commit(const Summary& summary, const Triage& triage) {
  ordered_json line;
  line["summary"] = state_to_json(summary);
  line["triage"] = ordered_json::object();
  for (const auto& [signature, state] : triage.states)
    line["triage"][signature] = ordered_json::array({state.bucket, state.agreeing, state.counted});
  line["failures"] = ordered_json::object();
  for (const Finding& finding : summary.findings) line["failures"][finding.entry.bucket] = finding.failures;
  append(progress_, text_of(line) + "\n");
}

void CampaignFolder::raw_failure(const RawFailure& failure, std::string_view key) {
  const Verdict& verdict = failure.outcome.finding()->verdict;
  ordered_json line{{"raw", to_text(failure.problem)}, {"case", failure.case_number}, {"key", key}};
  if (!verdict.reason.empty()) line["reason"] = verdict.reason;
  if (verdict.evidence) line["witness"] = to_json(*verdict.evidence);
  append(findings_, text_of(line) + "\n");
}

void CampaignFolder::better(std::uint64_t case_number, const ShrinkStep& step) {
  const ordered_json line{{"better", to_text(step.best)}, {"case", case_number}, {"calls", step.calls}};
  append(findings_, text_of(line) + "\n");
}

void CampaignFolder::finding(const Finding& f) {
  const ordered_json line{
      {"bucket", f.entry.bucket},           {"case", f.case_number}, {"seconds_to_first", f.seconds_to_first},
      {"cases_to_first", f.cases_to_first}, {"also", f.also},        {"reproducer", f.reproducer},
      {"entry", to_file_text(f.entry)}};
  append(findings_, text_of(line) + "\n");
}

}  // namespace attest::engine
