#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "models/campaign.hpp"
#include "models/recorder.hpp"

namespace attest::models {

// Finds out what a campaign's failure is: confirmed by a fresh process, shrunk and localised, or due to the calls
// before it.
class Diagnosis {
 public:
  // All must live as long. `late`: whether the search must end; `over`: whether calls and evaluations on the way must,
  // too, which then throw graph::Stopped.
  Diagnosis(const Part& model, const graph::Family& family, const CampaignOptions& options, std::function<bool()> late,
            std::function<bool()> over);

  // A problem as it is put to builds.
  [[nodiscard]] Case case_of(const graph::Problem& problem) const;
  // The recorder of a subject's runtime: who is asked, and the calls before.
  Recorder& runtime(Subject& subject);

  // Tells whether a tensor, by name, is wrong by `law` on this problem, which fails, too, and no tensor that it is made
  // of is; for `proven-bound`, whether the part that fails is spelt as the one that gives it. Nothing more is known of
  // a failure without a place than its key.
  bool explains(const std::string& tensor, const Law& law, const Asking& asking, const graph::Problem& problem);
  // Tells whether two findings by different laws are of one defect: the smallest problem of one, or a call that its law
  // makes of it, fails by the law of the other, too, and there the first wrong tensor of that one explains it.
  bool are_one(Subject& subject, const Finding& a, const Finding& b);
  // Confirms, shrinks and localises a finding that has its original problem. A failure that a fresh process does not
  // show may hang on one of Recorder::histories(). False for a time limit that a fresh process keeps: the machine was
  // busy. Throws graph::Stopped where the end comes before that is known.
  bool understand(Subject& subject, const Law& law, Finding& finding,
                  const std::vector<std::vector<graph::Problem>>& histories);

 private:
  bool looked_into(Subject& subject, const Law& law, Finding& finding,
                   const std::vector<std::vector<graph::Problem>>& histories, bool& confirmed);
  const Part& prefix_to(int value);
  LawResult asked(Subject& subject, const Law& law, const Build& build, const Shrunk& what, Freshness on);
  bool stays(Subject& subject, const Law& law, const Finding& finding, const Shrunk& candidate,
             const LawResult& result);
  void find_place(Subject& subject, const Law& law, Finding& finding);
  void look_around(Subject& subject, const Law& law, Finding& finding);
  void find_history(Subject& subject, const Law& law, Finding& finding,
                    const std::vector<std::vector<graph::Problem>>& histories);

  const Part& model_;
  const graph::Family& family_;
  const CampaignOptions& options_;
  std::function<bool()> late_, over_;
  std::map<int, std::unique_ptr<Part>> prefixes_;  // by value
  std::map<const Runtime*, Recorder> recorders_;
};

}  // namespace attest::models
