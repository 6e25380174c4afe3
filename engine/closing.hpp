#pragma once
#include <set>
#include <string>
#include <vector>

#include "engine/avoid.hpp"
#include "engine/campaign.hpp"
#include "engine/case_table.hpp"
#include "engine/instance.hpp"
#include "engine/summary.hpp"
#include "engine/triage.hpp"

namespace attest::engine {

// The end of a campaign: turns its counts into a summary.

// Adds failures that were only counted to the bucket of those that were shrunk in their place, or, before there is one,
// to the first of the same kind.
void count_unshrunk(const Triage& triage, Summary& summary);

// The rules that decided what was drawn, each once and with the defect into whose buckets most of the failures fell
// that it explains. Needs summary.defects.
std::vector<Avoided> avoided(const Avoidance& avoidance, const Summary& summary, const CaseTable& table,
                             const Triage& triage);

// Explains the reproducers of the first new defects, as far as that costs little: under a time limit a second each, and
// a few in all. Deaths, and failures that come and go, are not asked once more.
void explain_defects(Summary& summary, Station& station, const ShrinkLimits& shrinking, const CampaignOptions& options);

}  // namespace attest::engine
