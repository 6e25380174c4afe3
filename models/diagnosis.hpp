#pragma once
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "models/campaign.hpp"

namespace attest::models {

// What a failure of a campaign is: confirmed by a fresh process, shrunk and localised, or of what went before it.
class Diagnosis {
 public:
  // All must live as long. `late`: whether what is looked for must end.
  Diagnosis(const Part& model, const graph::Family& family, const CampaignOptions& options, std::function<bool()> late);

  // A problem as it is put to builds.
  [[nodiscard]] Case case_of(const graph::Problem& problem) const;
  // What a process was asked, for failures that show after others alone.
  void remember(const Subject& subject, const std::string& level, const graph::Problem& problem);

  // Whether a tensor, by name, is wrong by `law` on this problem, which fails, too, and nothing that it is made of is; of `proven-bound`, whether the part that fails
  // is spelt as the one that gives it. Of none, which is a failure without a
  // place, nothing more is known than its key.
  bool explains(const std::string& tensor, const Law& law, const Asking& asking, const graph::Problem& problem);
  // Whether two findings by different laws are of one defect: the smallest problem of one fails by the law of the other, too, and there the first
  // wrong tensor of that one explains it.
  bool are_one(Subject& subject, const Finding& a, const Finding& b);
  // Of a finding that has its original problem: confirms, shrinks and localises it. False for a time limit that a fresh process keeps: the machine was
  // busy.
  bool understand(Subject& subject, const Law& law, Finding& finding);

 private:
  const Part& prefix_to(int value);
  LawResult asked(Subject& subject, const Law& law, const Build& build, const graph::Problem& problem, Freshness on);
  void find_place(Subject& subject, const Law& law, Finding& finding, const graph::Problem& problem);
  void look_around(Subject& subject, const Law& law, const Asking& asking, Finding& finding);
  void find_history(Subject& subject, const Law& law, Finding& finding);
  void forget(const Subject& subject, const std::string& level);

  const Part& model_;
  const graph::Family& family_;
  const CampaignOptions& options_;
  std::function<bool()> late_;
  std::map<int, std::unique_ptr<Part>> prefixes_;                                         // by value
  std::map<std::pair<std::string, std::string>, std::deque<graph::Problem>> remembered_;  // by subject and level
};

}  // namespace attest::models
