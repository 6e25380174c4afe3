#include "engine/campaign_folder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "core/digest.hpp"
#include "core/error.hpp"
#include "core/json_text.hpp"
#include "engine/evidence.hpp"
#include "engine/file.hpp"
#include "engine/json_lines.hpp"

namespace attest::engine {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using nlohmann::ordered_json;

constexpr int folder_format = 1;

// Paths may hold bytes that are no text; they are replaced.
std::string text_of(const ordered_json& object, int indent = -1) { return json_text(object, indent); }

// Writes the facts that make two campaigns the same: equal streams of problems, held against equal laws under equal
// contracts.
void add_subject(const std::string& subject, const SubjectInfo& info, const Op& op, ordered_json& object) {
  object["subject"] = subject;
  object["version"] = info.version;
  ordered_json contracts = ordered_json::object();
  for (const Format dtype : op.dtypes(info)) contracts[std::string(name(dtype))] = to_json(op.contract(info, dtype));
  object["contract"] = std::move(contracts);
  for (const Contract& contract : op.form_contracts(info)) object["form_contracts"].push_back(to_json(contract));
}

// The digest of a seed that no file of a campaign is to hold: it tells whether another seed is the same.
std::string kept_back(std::uint64_t seed) { return "digest-" + hex64(digest_of(fmt::format("seed {}", seed))); }

ordered_json identity(const CampaignOptions& options, const SubjectInfo& info, const SubjectInfo* info_b) {
  ordered_json object;
  object["format"] = folder_format;
  const Op& op = op_of(options, info);
  if (&op != ops::all_ops().front()) object["op"] = op.name();
  add_subject(options.subject, info, op, object);
  if (info_b != nullptr) {
    add_subject(options.subject_b->subject, *info_b, op, object["subject_b"]);
    object["bits"] = options.laws.compare == LawChoice::Compare::bits;
  }
  if (options.observed) object["observed"] = to_json(*options.observed, info, op);
  object["policy"] = options.policy ? to_text(*options.policy) : "";
  object["seed"] = options.seed_kept_back ? ordered_json(kept_back(options.seed)) : ordered_json(options.seed);
  object["r"] = options.repeat;
  object["laws"] = options.laws.further ? ordered_json(*options.laws.further) : ordered_json("all");
  object["property"] = options.laws.property_glob;
  object["assume"] = options.assume ? options.assume->text() : "";
  if (options.sizes != SizeRegime::both) object["sizes"] = sizes_names[static_cast<std::size_t>(options.sizes)];
  if (!options.laws.statistics) object["statistics"] = false;
  object["shard"] = fmt::format("{}/{}", options.shard.index, options.shard.count);
  object["avoid"] = options.avoid;
  return object;
}

}  // namespace

CampaignOptions campaign_in(const fs::path& folder) {
  const fs::path file = folder / "campaign.json";
  std::string refusal;
  try {
    const json object = parse_json(read_file(file, 1 << 20));
    if (object.contains("subject_b"))
      refusal = fmt::format("{} holds a campaign of two subjects: the same `attest compare A B -o {}` goes on with it",
                            folder.string(), folder.string());
    CampaignOptions options;
    options.folder = folder;
    options.subject = object.at("subject").get<std::string>();
    if (object.at("seed").is_string())
      refusal = fmt::format(
          "{} does not say its seed, which came by --seed-fd: the same `attest fuzz ... -o {}` goes on with it",
          folder.string(), folder.string());
    else
      options.seed = object.at("seed").get<std::uint64_t>();
    options.repeat = object.at("r").get<std::uint64_t>();
    options.policy_text = object.at("policy").get<std::string>();
    if (object.contains("op")) options.op = ops::find_op(object.at("op").get<std::string>());
    const Op& op = options.op ? *options.op : *ops::all_ops().front();
    if (!options.policy_text.empty()) options.policy = ops::policy_asked(op, options.policy_text);
    options.laws.further.reset();
    if (object.at("laws").is_number_unsigned()) options.laws.further = object.at("laws").get<std::size_t>();
    options.laws.property_glob = object.at("property").get<std::string>();
    options.laws.statistics = object.value("statistics", true);
    if (const auto text = object.at("assume").get<std::string>(); !text.empty()) options.assume.emplace(text, op);
    options.sizes = sizes_named(object.value("sizes", "both"));
    options.avoid = object.at("avoid").get<bool>();
    const auto shard = object.at("shard").get<std::string>();
    const std::size_t slash = shard.find('/');
    if (slash == std::string::npos) throw usage_error("no shard");
    options.shard = {std::stoull(shard.substr(0, slash)), std::stoull(shard.substr(slash + 1))};
    if (refusal.empty()) return options;
  } catch (const std::exception&) {
    throw usage_error(file.string() + " is damaged, or of another version of attest: start a new campaign folder");
  }
  throw usage_error(refusal);
}

std::optional<std::uint64_t> seed_in(const fs::path& folder) {
  const fs::path file = folder / "campaign.json";
  if (std::error_code error; !fs::is_regular_file(file, error)) return std::nullopt;
  const json object = parse_json_or_discard(read_file(file, 1 << 20));
  if (!object.is_object() || !object.contains("seed") || !object["seed"].is_number_unsigned()) return std::nullopt;
  return object["seed"].get<std::uint64_t>();
}

std::optional<Observed> observed_in(const fs::path& folder, const SubjectInfo& info, const Op& op) {
  try {
    const json object = parse_json(read_file(folder / "campaign.json", 1 << 20));
    if (!object.contains("observed")) return std::nullopt;
    return observed_from_json(object.at("observed"), info, op);
  } catch (const std::exception&) {
    throw usage_error((folder / "campaign.json").string() +
                      " is damaged, or of another version of attest: start a new campaign folder");
  }
}

CampaignFolder::CampaignFolder(const CampaignOptions& options, const SubjectInfo& info, const SubjectInfo* info_b,
                               Summary& summary, Triage& triage, Avoidance& avoidance)
    : folder_(options.folder), lock_(folder_) {
  check_identity(options, info, info_b);
  restore(summary, triage, avoidance);
  restore_findings(summary, triage);
  progress_.emplace(folder_ / "progress.jsonl");
  findings_.emplace(folder_ / "findings.jsonl");
  cases_.emplace(folder_ / "cases.jsonl");
}

void CampaignFolder::check_identity(const CampaignOptions& options, const SubjectInfo& info,
                                    const SubjectInfo* info_b) {
  const fs::path file = folder_ / "campaign.json";
  if (info_b == nullptr && fs::exists(file) && parse_json_or_discard(read_file(file, 1 << 20)).contains("subject_b"))
    throw usage_error(fmt::format(
        "{} holds a campaign of two subjects: name another folder, or go on with `attest compare`", folder_.string()));
  keep_identity(folder_, identity(options, info, info_b));
}

void CampaignFolder::restore(Summary& summary, Triage& triage, Avoidance& avoidance) {
  for_last_line(folder_ / "progress.jsonl", [&](const json& last) {
    state_from_json(last.at("summary"), summary);
    for (const auto& [signature, failures] : last.at("signatures").items())
      triage.states[signature].failures = failures.get<std::uint64_t>();
    triage.chosen = last.at("chosen").get<std::map<std::string, std::uint64_t>>();
    std::vector<AvoidRule> rules;
    for (const json& rule : last.at("rules")) rules.push_back(rule_from_json(rule, *summary.op));
    for (AvoidRule& given : avoidance.rules)  // by --known, and not known then
      if (std::ranges::none_of(
              rules, [&](const AvoidRule& rule) { return rule.key == given.key && rule.predicate == given.predicate; }))
        rules.push_back(std::move(given));
    avoidance.rules = std::move(rules);
  });
}

// Restores the latest reproducer of each bucket, and the failures that were shrunk. A line written after the last
// commit counts no failure yet: its case is run again.
void CampaignFolder::restore_findings(Summary& summary, Triage& triage) {
  const fs::path file = folder_ / "findings.jsonl";
  std::map<std::uint64_t, PendingFailure> raw;
  std::map<std::uint64_t, std::pair<std::string, std::string>> shrunk;  // signature and bucket, by case
  for_each_line(file, [&](const json& line) {
    if (line.contains("raw")) {
      const auto number = line.at("case").get<std::uint64_t>();
      if (number < summary.next_case)
        raw[number] = {problem_from_text(line.at("raw").get<std::string>()), number, line.at("seconds").get<double>(),
                       line.at("cases").get<std::uint64_t>(), line.at("signature").get<std::string>()};
    }
    if (line.contains("shrunk")) {
      const auto number = line.at("shrunk").get<std::uint64_t>();
      if (number < summary.next_case)
        shrunk[number] = {line.at("signature").get<std::string>(), line.at("bucket").get<std::string>()};
    }
    if (!line.contains("entry")) return;
    Finding finding;
    finding.entry = entry_from_file_text(line.at("entry").get<std::string>(), file.string());
    finding.case_number = line.at("case").get<std::uint64_t>();
    finding.seconds_to_first = line.at("seconds_to_first").get<double>();
    finding.cases_to_first = line.at("cases_to_first").get<std::uint64_t>();
    finding.also = line.at("also").get<std::vector<std::string>>();
    finding.shows = line.at("shows").get<std::vector<std::string>>();
    finding.reproducer = line.at("reproducer").get<std::string>();
    finding.failures = 0;
    const auto same = [&](const Finding& other) { return other.entry.bucket == finding.entry.bucket; };
    const auto known = std::ranges::find_if(summary.findings, same);
    if (known == summary.findings.end())
      summary.findings.push_back(std::move(finding));
    else
      *known = std::move(finding);
  });
  for (const auto& [number, what] : shrunk) {
    raw.erase(number);
    Triage::State& state = triage.states[what.first];
    ++state.shrunk;
    state.bucket = what.second;
    for (Finding& finding : summary.findings) finding.failures += finding.entry.bucket == what.second;
  }
  for (const auto& [number, what] : shrunk)
    std::erase_if(summary.findings, [by = number, &bucket = what.second](const Finding& finding) {
      return finding.is_replaced_by(by, bucket);
    });
  for (auto& [number, failure] : raw) pending_.push_back(std::move(failure));
  std::ranges::sort(summary.findings, {}, &Finding::case_number);
}

std::vector<CaseRow> CampaignFolder::rows(std::uint64_t next_case) const {
  std::map<std::uint64_t, CaseRow> rows;  // a case that was run again after a kill has a second line
  for_each_line(folder_ / "cases.jsonl", [&](const json& line) {
    CaseRow row = row_from_json(line);
    if (row.number < next_case) rows[row.number] = std::move(row);
  });
  std::vector<CaseRow> in_order;
  for (auto& [number, row] : rows) in_order.push_back(std::move(row));
  return in_order;
}

void CampaignFolder::commit(const Summary& summary, const Triage& triage, const Avoidance& avoidance,
                            std::span<const CaseRow> rows) {
  std::string lines;
  for (const CaseRow& row : rows) lines += text_of(to_json(row)) + "\n";
  cases_->append(lines);
  ordered_json line;
  line["summary"] = state_to_json(summary);
  line["signatures"] = ordered_json::object();
  for (const auto& [signature, state] : triage.states) line["signatures"][signature] = state.failures;
  line["chosen"] = triage.chosen;
  line["rules"] = ordered_json::array();
  for (const AvoidRule& rule : avoidance.rules) line["rules"].push_back(to_json(rule));
  progress_->append(text_of(line) + "\n");
}

void CampaignFolder::raw_failure(const RawFailure& failure, const ShrinkTask& task) {
  const Verdict& verdict = failure.outcome.finding()->verdict;
  ordered_json line{
      {"raw", to_text(failure.problem)}, {"case", failure.case_number}, {"key", to_text(failure.outcome.key())},
      {"signature", task.signature},     {"seconds", task.seconds},     {"cases", task.cases}};
  if (!verdict.reason.empty()) line["reason"] = verdict.reason;
  if (verdict.evidence) line["witness"] = to_json(*verdict.evidence);
  findings_->append(text_of(line) + "\n");
}

void CampaignFolder::shrunk(const ShrinkTask& task, const std::string& bucket) {
  const ordered_json line{{"shrunk", task.number}, {"signature", task.signature}, {"bucket", bucket}};
  findings_->append(text_of(line) + "\n");
}

void CampaignFolder::better(std::uint64_t case_number, const ShrinkStep& step) {
  const ordered_json line{{"better", to_text(step.best)}, {"case", case_number}, {"calls", step.calls}};
  findings_->append(text_of(line) + "\n");
}

void CampaignFolder::finding(const Finding& f) {
  const ordered_json line{{"bucket", f.entry.bucket},
                          {"case", f.case_number},
                          {"seconds_to_first", f.seconds_to_first},
                          {"cases_to_first", f.cases_to_first},
                          {"also", f.also},
                          {"shows", f.shows},
                          {"reproducer", f.reproducer},
                          {"entry", to_file_text(portable_entry(f.entry, folder_))}};
  findings_->append(text_of(line) + "\n");
}

}  // namespace attest::engine
