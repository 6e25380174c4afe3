#pragma once
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/avoid.hpp"
#include "engine/campaign.hpp"
#include "engine/case_table.hpp"
#include "engine/json_lines.hpp"
#include "engine/shrinker.hpp"
#include "engine/summary.hpp"
#include "engine/triage.hpp"

namespace attest::engine {

// A failure that was to be shrunk when the campaign ended.
struct PendingFailure {
  Problem problem;
  std::uint64_t number = 0;  // the case's
  double seconds = 0;
  std::uint64_t cases = 0;
  std::string signature;
};

// The options of the campaign that a folder holds, all but what may differ from run to run. Throws Error(usage).
CampaignOptions campaign_in(const std::filesystem::path& folder);

// The observations that the campaign of a folder holds its subject to; nullopt: none. Throws Error(usage).
std::optional<Observed> observed_in(const std::filesystem::path& folder, const SubjectInfo& info, const Op& op);

// The seed of the campaign that a folder holds, of a model's too; nullopt where it holds none that can be read.
std::optional<std::uint64_t> seed_in(const std::filesystem::path& folder);

// The folder of a campaign: campaign.json says which campaign it is; progress.jsonl gets one line a commit, each with
// the counts so far; cases.jsonl what the laws said of each problem; findings.jsonl each raw failure before it is
// shrunk, each better problem while it is, each reproducer, and that a failure was shrunk. All lines are appended
// whole; killing the process loses what came after the last commit, and no finding.
class CampaignFolder {
 public:
  // Makes the folder, or opens that of the same campaign and restores `summary`, `triage` and the rules of `avoidance`.
  // Throws Error(usage) if it holds another campaign (naming the first difference), is damaged, in use, or cannot be
  // written. `info_b`: that of the second of two subjects; null without a second.
  CampaignFolder(const CampaignOptions& options, const SubjectInfo& info, const SubjectInfo* info_b, Summary& summary,
                 Triage& triage, Avoidance& avoidance);

  // Appends the state. `rows`: those that the table of cases got since the last commit.
  void commit(const Summary& summary, const Triage& triage, const Avoidance& avoidance, std::span<const CaseRow> rows);
  void raw_failure(const RawFailure& failure, const ShrinkTask& task);
  void better(std::uint64_t case_number, const ShrinkStep& step);
  void finding(const Finding& finding);
  void shrunk(const ShrinkTask& task, const std::string& bucket);

  // The rows of the cases before `next_case`, with all but their traits; and the failures that were not shrunk. Each
  // may be taken once.
  std::vector<CaseRow> rows(std::uint64_t next_case) const;
  std::vector<PendingFailure> pending() { return std::move(pending_); }

 private:
  void check_identity(const CampaignOptions& options, const SubjectInfo& info, const SubjectInfo* info_b);
  void restore(Summary& summary, Triage& triage, Avoidance& avoidance);
  void restore_findings(Summary& summary, Triage& triage);

  std::filesystem::path folder_;
  FolderLock lock_;
  std::optional<JsonLines> progress_, findings_, cases_;
  std::vector<PendingFailure> pending_;
};

}  // namespace attest::engine
