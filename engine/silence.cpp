#include "engine/silence.hpp"

#include <algorithm>

namespace attest::engine {

namespace {

constexpr std::uint64_t refusals_for_an_error = 32;  // times the patience; a refusal costs nothing, and may be meant

}  // namespace

bool is_silent(const CaseOutcome& outcome) {
  if (outcome.silent) return true;
  bool asked = false;
  for (const LawVerdict& law : outcome.laws) {
    const VerdictKind kind = law.verdict.kind;
    const bool ended = kind == VerdictKind::error || ends_instance(kind);
    if (!ended && kind != VerdictKind::skip) return false;
    asked = asked || ended || law.verdict.reason.starts_with(unsupported_prefix);
  }
  return asked;
}

bool Silence::add(std::uint64_t number, double finished, const CaseOutcome& outcome) {
  if (!is_silent(outcome)) {
    returned_ = true;
    if (lasts() && finished > since_ && ++returned_since_ > jobs_) cases_ = 0;
    return false;
  }
  const LawVerdict* finding = outcome.finding();
  const std::string& reason = (finding ? *finding : outcome.laws.front()).verdict.reason;
  const std::string kind = finding ? std::string(name(finding->verdict.kind)) + message_class(reason) : reason;
  if (!lasts() || kind != kind_) {
    cases_ = 0;
    first_ = number;
    since_ = finished;
    returned_since_ = 0;
    kind_ = kind;
    reason_ = reason;
  }
  ++cases_;
  if (!finding) return !returned_ && cases_ >= refusals_for_an_error * patience_;
  return outcome.silent || cases_ >= patience_;
}

void Silence::broken() {
  cases_ = 0;
  patience_ *= 2;
}

}  // namespace attest::engine
