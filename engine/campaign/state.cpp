#include "engine/campaign/state.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "engine/bucket.hpp"
#include "engine/failure.hpp"

namespace attest::engine {

void CampaignTime::begin() {
  start_ = options_.clock();
  if (options_.seconds) last_call_ = *options_.seconds + finishing_seconds;
}

bool CampaignTime::has_no_calls_left() {
  if (is_lost_) return true;
  if (!first_is_asked_ || late_asker_ == std::this_thread::get_id()) return false;
  double none = never;
  if (is_interrupted()) interrupted_at_.compare_exchange_strong(none, elapsed());
  return elapsed() >= std::min(last_call_.load(), interrupted_at_ + finishing_seconds) ||
         (closing_ && closing_->is_spent());
}

Allowance& CampaignTime::close() {
  closing_.emplace(std::max(0.0, left(finishing_seconds)) + closing_seconds, options_.clock);
  last_call_ = never;
  return *closing_;
}

CampaignState::CampaignState(const SubjectInfo& subject, const SubjectInfo* second, const CampaignOptions& options,
                             Observer& observer)
    : options(options),
      observer(observer),
      info(subject),
      info_b(second),
      op(op_of(options, info)),
      supports(info),
      domain(domain_for(info, op, options.policy, options.assume, options.sizes)),
      time(options),
      summary(begun(options, info, second ? *second : info)),
      table(supports),
      avoidance(supports, options.seed, options.avoid, options.avoid && options.shard.count == 1),
      silence(options.jobs) {
  if (options.assume) {
    summary.assume = options.assume->text();
    summary.given_up = given_up(info, op, options.policy, *options.assume, options.sizes);
  }
  if (options.shard.count > 1) summary.shard = fmt::format("{}/{}", options.shard.index, options.shard.count);
}

bool CampaignState::stands_for(const AvoidRule& rule) const {
  return rule.known || std::ranges::any_of(summary.findings, [&](const Finding& finding) {
           return finding.entry.seen == rule.key.kind && failure_key_of(finding.entry) == rule.key &&
                  rule.predicate.holds(finding.entry.problem, info.supports);
         });
}

bool costs_much(VerdictKind kind) noexcept { return ends_instance(kind) || kind == VerdictKind::error; }
bool costs_much(const CaseOutcome& outcome) noexcept {
  return std::ranges::any_of(outcome.laws, [](const LawVerdict& law) { return costs_much(law.verdict.kind); });
}

}  // namespace attest::engine
