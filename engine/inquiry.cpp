#include "engine/inquiry.hpp"

#include <cmath>
#include <optional>

#include "engine/explain/accounts.hpp"
#include "engine/failure.hpp"
#include "engine/recorder.hpp"
#include "engine/restated.hpp"
#include "engine/stream.hpp"
#include "engine/study.hpp"
#include "properties/property.hpp"

namespace attest::engine {
namespace {
constexpr std::int64_t most_calls = 200;  // calls that shrink one answer

// Tells whether a wrong number lies where another did, and is no nearer to the right one than to that.
bool is_as_wrong(const Evidence& now, const Evidence& then) {
  if (now.tensor != then.tensor || now.index != then.index) return false;
  if (!std::isfinite(now.got) || !std::isfinite(then.got))
    return std::isnan(now.got) ? std::isnan(then.got) : now.got == then.got;
  return std::abs(now.got - then.got) <= std::abs(then.got - then.expected) / 2;
}
}  // namespace

template <class Step>
auto Inquiry::in_time(Step&& step) -> decltype(step()) {
  try {
    return allowance_.spend(step);
  } catch (const OutOfTime&) {
    return {};
  }
}

Evidences Inquiry::evidences(const CaseTable& table, const std::map<std::string, std::string>& buckets) {
  return {
      table, buckets,
      [this](const Entry& at, const std::string& property) { return in_time([&] { return probed(at, property); }); },
      [this](const Entry& at, const std::string& property) {
        return in_time([&] { return holds_apart(at, property); });
      },
      [this](const Entry& at) { return in_time([&] { return accounts(at); }); }};
}

Probed Inquiry::probed(const Entry& at, const std::string& property) {
  const Bench bench = station_.bench();
  const bool deadly = ends_instance(at.seen);
  if (deadly && !bench.peer) return {};
  Restated stand_in(bench.subject.info(), deadly ? *bench.peer : bench.subject);
  Recorder recorder(stand_in, op_);
  const CaseOutcome outcome = asked_alone(property, at, recorder);
  if (!outcome.reported || deadly) return {std::nullopt, recorder.calls(), std::nullopt};
  return {outcome.key(), recorder.calls(), outcome.finding()->call};
}

bool Inquiry::still_shows(const Entry& entry) {
  if (ends_instance(entry.seen) || entry.seen == VerdictKind::flaky || !entry.after.empty()) return true;
  return !in_time([&] {
    const auto ask = [&] { return asked_alone(entry.property, entry, station_.bench().subject); };
    const CaseOutcome now = ask();
    if (!now.reported || kind_of(now.key()) != kind_of(failure_key_of(entry))) return true;
    const std::optional<Evidence>& seen = now.finding()->verdict.evidence;
    if (!entry.evidence || !seen || is_as_wrong(*seen, *entry.evidence)) return false;
    const CaseOutcome again = ask();  // numbers that differ from call to call tell nothing
    const LawVerdict* other = again.finding();
    return other && other->verdict.evidence && is_as_wrong(*other->verdict.evidence, *seen);
  });
}

bool Inquiry::holds_apart(const Entry& at, const std::string& property) {
  Apart apart(station_.bench().subject);
  const CaseOutcome outcome = asked_alone(property, at, apart);
  return !outcome.reported && apart.were_all();
}

std::optional<Accounts> Inquiry::accounts(const Entry& at) { return accounts_of(at, station_.bench(), {}); }

std::optional<Entry> Inquiry::reproduced(const Problem& at, const std::string& property, const CampaignOptions& options,
                                         const ShrinkLimits& limits) {
  return in_time([&]() -> std::optional<Entry> {
    const Bench bench = station_.bench();
    const std::size_t law = law_named(property, op_);
    const Contract contract = contract_for_problem(bench.subject.info(), options.policy, at);
    const CaseOutcome outcome = check(at, contract, bench, {&law, 1});
    if (!outcome.reported) return std::nullopt;
    return reproduce({at, outcome, std::nullopt, std::nullopt}, bench, options.subject, options.policy, limits,
                     {most_calls, std::nullopt}, {});
  });
}

std::vector<Problem> Inquiry::calls_of(const Entry& at) {
  return in_time([&] { return probed(at, at.property).calls; });
}

CaseOutcome Inquiry::asked_alone(const std::string& property, const Entry& at, Subject& subject) {
  const std::size_t law = law_named(property, op_);
  const Bench bench = station_.bench();
  return check(at.problem, at.contract, {subject, bench.peer, nullptr, nullptr, bench.compares}, {&law, 1});
}

}  // namespace attest::engine
