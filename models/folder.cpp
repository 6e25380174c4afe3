#include "models/folder.hpp"

#include <map>
#include <nlohmann/json.hpp>

#include "core/json_text.hpp"
#include "engine/file.hpp"

namespace attest::models {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

json identity_in(const std::filesystem::path& folder) {
  constexpr std::uintmax_t largest_identity = 1 << 20;
  return parse_json(engine::read_file(folder / "campaign.json", largest_identity));
}

}  // namespace

Folder::Folder(const std::filesystem::path& folder, const ordered_json& identity, Summary& summary)
    : folder_(folder),
      lock_(folder),
      progress_((engine::keep_identity(folder, identity), folder / "progress.jsonl")),
      findings_(folder / "findings.jsonl"),
      cases_(folder / "cases.jsonl") {
  engine::for_each_line(folder / "findings.jsonl",
                        [&](const json& line) { summary.findings.push_back(finding_from_json(line)); });
  engine::for_last_line(folder / "progress.jsonl", [&](const json& line) { state_from_json(line, summary); });
  committed_ = summary.cases;
}

void Folder::add(const CaseLine& line) {
  ordered_json object = ordered_json::array({line.number});
  for (const auto& [held, finding] : line.runs) object.push_back({held, finding});
  pending_ += json_text(object) + "\n";
}

void Folder::finding(const Finding& finding) { findings_.append(json_text(to_json(finding)) + "\n"); }

void Folder::commit(const Summary& summary) {
  cases_.append(pending_);
  pending_.clear();
  progress_.append(json_text(state_to_json(summary)) + "\n");
  committed_ = summary.cases;
}

std::vector<Folder::CaseLine> Folder::cases() const {
  std::map<std::uint64_t, CaseLine> found;  // one that was asked again after a kill has a second line
  engine::for_each_line(folder_ / "cases.jsonl", [&](const json& line) {
    CaseLine one{line.at(0).get<std::uint64_t>(), {}};
    for (std::size_t i = 1; i < line.size(); ++i)
      one.runs.emplace_back(line.at(i).at(0).get<std::uint32_t>(), line.at(i).at(1).get<int>());
    if (one.number < committed_) found[one.number] = std::move(one);
  });
  std::vector<CaseLine> in_order;
  for (auto& [number, line] : found) in_order.push_back(std::move(line));
  return in_order;
}

bool is_campaign(const std::filesystem::path& folder) { return identity_in(folder).value("kind", "") == "model"; }

Summary summary_in(const std::filesystem::path& folder) {
  const json campaign = identity_in(folder);
  Summary summary;
  summary.subjects = campaign.at("subjects").get<std::vector<std::string>>();
  summary.policy = campaign.at("policy").get<std::string>();
  summary.seed = campaign.at("seed").get<std::uint64_t>();
  engine::read_lines(folder / "findings.jsonl",
                     [&](const json& line, std::string_view) { summary.findings.push_back(finding_from_json(line)); });
  json last;
  engine::read_lines(folder / "progress.jsonl", [&](const json& line, std::string_view) { last = line; });
  if (!last.is_null()) state_from_json(last, summary);
  return summary;
}

}  // namespace attest::models
