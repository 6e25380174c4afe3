// Campaigns as users run them: against each fault until it is found, and on kernels in which there is nothing to find.
#include <algorithm>

#include "engine/campaign.hpp"
#include "engine/grade/parts.hpp"

namespace attest::engine {
namespace {

CampaignOptions campaign_of(const std::string& name, const std::optional<Policy>& policy, const GradeOptions& options) {
  CampaignOptions campaign;
  campaign.verb = "check";
  campaign.subject = name;
  campaign.policy = policy;
  if (policy) campaign.policy_text = to_text(*policy);
  campaign.jobs = options.jobs;
  campaign.shrink = options.shrink;
  campaign.interrupt = options.interrupt;
  return campaign;
}

}  // namespace

std::optional<Hunt> hunt(const SubjectFactory& fault, const SubjectFactory& peer, const std::string& name,
                         const GradeOptions& options, std::uint64_t seed) {
  CampaignOptions campaign = campaign_of(name, options.policy, options);
  campaign.seed = seed;
  campaign.cases = options.cases;
  campaign.continue_after_failure = false;
  Observer silent;
  const Summary summary = run_campaign(fault, &peer, campaign, silent);
  if (summary.interrupted && summary.findings.empty()) return std::nullopt;
  Hunt hunt;
  hunt.seed = seed;
  hunt.drawn = summary.cases;
  if (summary.findings.empty()) return hunt;
  const Finding& finding = summary.findings.front();
  hunt.found = true;
  hunt.seconds = finding.seconds_to_first;
  hunt.law = finding.entry.property;
  hunt.credited = std::ranges::find(finding.also, policy_bound_name) == finding.also.end()
                      ? hunt.law
                      : std::string(policy_bound_name);
  hunt.proof = !is_statistical(law_named(hunt.credited, *options.op));
  hunt.work = work_of(finding.entry.problem);
  hunt.subject_calls = finding.entry.shrink_calls;
  hunt.minimal = finding.entry.minimal;
  hunt.problem = to_text(finding.entry.problem);
  return hunt;
}

void run_clean(const SubjectFactory& kernel, const SubjectFactory& peer, const std::string& name,
               const std::optional<Policy>& policy, const GradeOptions& options, CleanRecord& record) {
  CampaignOptions campaign = campaign_of(name, policy, options);
  campaign.cases = options.clean;
  Observer silent;
  const Summary summary = run_campaign(kernel, &peer, campaign, silent);
  record.campaigns += summary.interrupted ? 0 : 1;
  record.problems += summary.cases;
  record.elements += summary.elements;
  record.undetermined += summary.undetermined;
  for (const Finding& finding : summary.findings)
    record.alarms.push_back({name, campaign.policy_text, finding.entry.property, to_text(finding.entry.problem)});
}

}  // namespace attest::engine
