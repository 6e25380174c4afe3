#pragma once
#include <filesystem>
#include <string>
#include <string_view>

#include "engine/campaign.hpp"
#include "engine/summary.hpp"
#include "engine/triage.hpp"

namespace attest::engine {

// The folder of a campaign: campaign.json says which campaign it is; progress.jsonl gets one line a commit, each with the
// counts so far; findings.jsonl gets each raw failure before it is shrunk, each better problem while it is, each reproducer.
// All lines are appended whole; killing the process loses what came after the last commit, and no finding.
class CampaignFolder {
 public:
  // Makes the folder, or opens that of the same campaign and restores `summary` and `triage`. Throws Error(usage) if it holds
  // another campaign (naming the first difference), is damaged, in use, or cannot be written.
  CampaignFolder(const CampaignOptions& options, const SubjectInfo& info, Summary& summary, Triage& triage);
  ~CampaignFolder();
  CampaignFolder(const CampaignFolder&) = delete;
  CampaignFolder& operator=(const CampaignFolder&) = delete;

  void commit(const Summary& summary, const Triage& triage);
  void raw_failure(const RawFailure& failure, std::string_view key);
  void better(std::uint64_t case_number, const ShrinkStep& step);
  void finding(const Finding& finding);

 private:
  void check_identity(const CampaignOptions& options, const SubjectInfo& info);
  void restore(Summary& summary, Triage& triage);
  void restore_findings(Summary& summary);
  void append(int file, const std::string& line);

  std::filesystem::path folder_;
  int lock_ = -1, progress_ = -1, findings_ = -1;
};

}  // namespace attest::engine
