#pragma once
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "engine/json_lines.hpp"
#include "models/condition.hpp"
#include "models/summary.hpp"

namespace attest::models {

// The folder of a campaign: campaign.json says which campaign it is; progress.jsonl gets a line a commit, each with the
// counts so far; cases.jsonl what the laws said of each problem; findings.jsonl each defect as soon as it is
// understood. Lines are appended whole: a process that is killed loses the problems since the last commit, which are
// asked again, and no finding.
class Folder {
 public:
  // Makes the folder, or opens that of the same campaign and restores `summary`. Throws Error(usage) if it holds
  // another campaign (naming the first difference), is damaged, in use, or cannot be written.
  Folder(const std::filesystem::path& folder, const nlohmann::ordered_json& identity, Summary& summary);

  // The runs of problem `number`, in the order in which levels are asked: the laws that held, and the finding. Kept
  // until the next commit.
  struct CaseLine {
    std::uint64_t number = 0;
    std::vector<std::pair<std::uint32_t, int>> runs;
  };
  void add(const CaseLine& line);
  void finding(const Finding& finding);
  void commit(const Summary& summary);
  // The committed cases, each problem once, in order.
  [[nodiscard]] std::vector<CaseLine> cases() const;

 private:
  std::filesystem::path folder_;
  engine::FolderLock lock_;
  std::uint64_t committed_ = 0;  // problems
  std::string pending_;
  engine::JsonLines progress_, findings_, cases_;
};

// Tells whether a folder is of such a campaign. Throws Error(usage) and nlohmann's exceptions where its campaign.json is
// damaged.
bool is_campaign(const std::filesystem::path& folder);
// The summary in a folder, read without a lock and without its conditions: the campaign may go on, or was killed.
// Throws Error(usage) and nlohmann's exceptions for one that is damaged, or none of a model.
Summary summary_in(const std::filesystem::path& folder);

}  // namespace attest::models
