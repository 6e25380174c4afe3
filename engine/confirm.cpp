// Confirms a finding by an instance known to be sound.
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "engine/check.hpp"
#include "engine/instance.hpp"
#include "engine/quiet.hpp"
#include "engine/restated.hpp"
#include "engine/sound.hpp"
#include "engine/timed.hpp"
#include "properties/property.hpp"

namespace attest::engine {
namespace {

constexpr int repeats = 3;
constexpr int longer = 6;               // times a limit: a call that is done by then is slow, and does not hang
constexpr std::size_t most_before = 8;  // kept with a case, of which a block holds thousands

bool died(const CaseOutcome& outcome) { return std::ranges::any_of(outcome.laws, &LawVerdict::died); }

bool is_lost(const CaseOutcome& outcome) { return std::ranges::any_of(outcome.laws, &LawVerdict::lost); }

bool shows(const CaseOutcome& outcome, std::size_t law) {
  return std::ranges::any_of(outcome.laws,
                             [&](const LawVerdict& l) { return l.law == law && is_finding(l.verdict.kind); });
}

// One case and the instance on which it failed.
class Confirmation {
 public:
  Confirmation(const Problem& problem, const Contract& contract, Bench bench, std::span<const std::size_t> laws,
               CaseOutcome seen, Instance::Mark begin, const std::function<bool(const CaseOutcome&)>& settled)
      : problem_(problem),
        contract_(contract),
        bench_(bench),
        laws_(laws),
        outcome_(std::move(seen)),
        seen_(outcome_),
        begin_(begin),
        settled_(settled) {}
  ~Confirmation() { wait_longer(1); }
  Confirmation(const Confirmation&) = delete;
  Confirmation& operator=(const Confirmation&) = delete;

  // Leaves a sound instance behind, if there can be one.
  CaseOutcome run() {
    std::optional<CaseOutcome> outcome;
    try {
      outcome = judge();
      if (!sound_) fresh();
    } catch (const OutOfTime&) {  // neither the finding nor a sound instance's answer is lost
      if (outcome) return std::move(*outcome);
      seen_.cut_off = true;
      seen_.before = bench_.instance->before(begin_, most_before);
      return std::move(seen_);
    }
    return std::move(*outcome);
  }
  // The outcome of a time-out on a fresh instance that is given longer.
  CaseOutcome run_late() {
    if (!fresh()) return std::move(outcome_);
    std::optional<CaseOutcome> again = ask_alone();
    if (!again) return silent();
    again->slow = !again->reported;
    take(std::move(*again));
    return std::move(outcome_);
  }

 private:
  CaseOutcome judge() {
    const VerdictKind kind = outcome_.finding()->verdict.kind;
    look_at_instance(outcome_);
    if (may_be_presumed() && settled_(outcome_)) {
      outcome_.presumed = true;
      outcome_.before = bench_.instance->before(begin_, most_before);
      return std::move(outcome_);
    }
    const bool once_more = sound_ || kind == VerdictKind::crash || outcome_.finding()->lost;
    if (once_more && bench_.instance->is_settled(to_text(outcome_.key())) && shows(ask(outcome_.needed), law())) {
      outcome_.before = bench_.instance->before(begin_, most_before);
      return std::move(outcome_);
    }
    const std::vector<Asked> before = bench_.instance->before(begin_);
    const std::optional<Ailment> ill = ill_;
    if (!fresh()) {
      if (is_lost(outcome_) ? bench_.instance->lose() : ill.has_value())
        flaky(*outcome_.finding(),
              "the instance then failed other calls too, and this subject cannot be started again");
      else if (!shows(ask(outcome_.needed), law()))
        return unshown(before);
      return std::move(outcome_);
    }
    std::optional<CaseOutcome> again = kind == VerdictKind::timeout ? ask_alone() : ask(laws_);
    if (!again) return silent();
    if (!again->reported) return not_of_a_fresh_one(ill, before, std::move(*again));
    take(std::move(*again));
    bench_.instance->settle(to_text(outcome_.key()));
    narrow();
    return std::move(outcome_);
  }

  // Wrong numbers cost little to ask for again, and an instance that is not sound may have been so before.
  [[nodiscard]] bool may_be_presumed() const {
    return settled_ && (died(outcome_) || (sound_ && outcome_.finding()->verdict.kind == VerdictKind::error));
  }
  [[nodiscard]] std::size_t law() const { return outcome_.finding()->law; }

  // After a finding: whether the instance is sound.
  void look_at_instance(const CaseOutcome& outcome) {
    ill_.reset();
    if (died(outcome)) {
      sound_ = false;
      return;
    }
    ill_ = ailment(bench_, contract_);
    sound_ = !ill_;
  }
  bool fresh() {
    sound_ = renew(bench_);
    return sound_;
  }
  // Asks an instance known to be sound.
  CaseOutcome ask(std::span<const std::size_t> laws) {
    if (!sound_) fresh();
    CaseOutcome outcome = check(problem_, contract_, bench_, laws);
    outcome_.seconds += outcome.seconds;
    if (outcome.reported) look_at_instance(outcome);
    return outcome;
  }
  void wait_longer(int times) const noexcept {
    bench_.subject.wait_longer(times);
    if (bench_.peer != nullptr) bench_.peer->wait_longer(times);
  }
  // Asks a timed-out case alone, with a longer limit. The limit may have been passed because of a task that the
  // instance does once, or of cases beside this one; or the problem is large, and the kernel slow. Returns nullopt
  // where not even the smallest problem comes back.
  std::optional<CaseOutcome> ask_alone() {
    wait_longer(longer);
    const auto warm = [&]() -> std::optional<CaseOutcome> {
      if (!warm_up(bench_, contract_)) return std::nullopt;
      return ask(laws_);
    };
    return bench_.quiet ? bench_.quiet->alone(warm) : warm();
  }
  // The time-out stands as it was seen.
  CaseOutcome silent() {
    outcome_.silent = true;
    outcome_.before = bench_.instance->before(begin_, most_before);
    return std::move(outcome_);
  }
  // The verdicts of another check of the case count.
  void take(CaseOutcome other) {
    const Seconds seconds = outcome_.seconds;
    outcome_ = std::move(other);
    outcome_.seconds = seconds;
  }

  // Narrows a finding that a fresh instance shows: which laws it takes, and whether the case poisons its instance
  // before it fails there.
  void narrow() {
    const std::optional<Ailment> ill = ill_;
    if (ill && !all_laws()[law()].base_call() && blame(ill, {Asked{problem_, {}}})) return;
    if (shows(ask(outcome_.needed), law())) return;
    std::vector<std::size_t> sooner;
    for (const std::size_t other : laws_)
      if (other < law()) sooner.push_back(other);
    if (ill && blame(ill, {Asked{problem_, sooner}})) return;
    outcome_.needed.assign(laws_.begin(), laws_.end());
  }

  // Tells whether the last of `calls`, after the others, poisons a fresh instance: each time, until that was seen once
  // for the key. If so it is the finding.
  bool blame(const std::optional<Ailment>& seen, std::vector<Asked> calls) {
    std::optional<Ailment> ill;
    for (int i = 0; i < repeats; ++i) {
      if (calls.empty() || !fresh()) return false;
      repeat_calls(calls, bench_, contract_);
      ill = ailment(bench_, contract_);
      sound_ = !ill;
      if (!ill || (seen && (ill->law != seen->law || ill->verdict.kind != seen->verdict.kind))) return false;
      const std::string key = to_text(key_of(all_laws()[ill->law].name, ill->poison()));
      if (bench_.instance->is_settled(key)) break;
      if (i + 1 == repeats) bench_.instance->settle(key);
    }
    Asked culprit = std::move(calls.back());
    calls.pop_back();
    poisoned(*ill, std::move(culprit), std::move(calls));
    return true;
  }

  // The outcome of a finding that a fresh instance does not show. If the instance was poisoned, the verdicts are those
  // of a fresh one, and the finding is the poisoning; a death leaves nothing to look at, and may have the same cause.
  CaseOutcome not_of_a_fresh_one(const std::optional<Ailment>& ill, const std::vector<Asked>& before,
                                 CaseOutcome again) {
    CaseOutcome seen = outcome_;
    const bool late = seen.finding()->verdict.kind == VerdictKind::timeout;
    take(std::move(again));
    if ((ill || died(seen)) && blame_before(ill, before)) return std::move(outcome_);
    if (late) {
      outcome_.slow = true;
      return std::move(outcome_);
    }
    take(std::move(seen));
    return unshown(before);
  }

  // The latest check is the likeliest: the call of its problem, or those of its laws. It is asked of every such
  // failure; all that there was, if it is certain that there is something to blame, and few searches were in vain.
  bool blame_before(const std::optional<Ailment>& ill, const std::vector<Asked>& before) {
    if (before.empty()) return false;
    const Asked& latest = before.back();
    if (!ill && !blame(ill, {latest})) return false;
    if (blame(ill, {Asked{latest.problem, {}}})) return true;
    for (const std::size_t law : latest.laws)
      if (!all_laws()[law].base_call() && blame(ill, {Asked{latest.problem, {law}}})) return true;
    if (!ill || blame(ill, {latest})) return true;
    if (before.size() == 1 || !bench_.instance->may_search()) return false;
    if (blame(ill, shortest_beginning(before))) return true;
    bench_.instance->searched();
    return false;
  }

  // The calls up to the one that poisons: fewer leave a fresh instance sound.
  std::vector<Asked> shortest_beginning(const std::vector<Asked>& calls) {
    std::size_t sound = 0, ill = calls.size();
    while (ill - sound > 1 && fresh()) {
      const std::size_t middle = sound + (ill - sound) / 2;
      repeat_calls(std::span(calls).first(middle), bench_, contract_);
      sound_ = false;
      (ailment(bench_, contract_) ? ill : sound) = middle;
    }
    return {calls.begin(), calls.begin() + static_cast<std::ptrdiff_t>(ill)};
  }

  void poisoned(const Ailment& ill, Asked culprit, std::vector<Asked> after) {
    report({ill.law, ill.poison()});
    outcome_.culprit = std::move(culprit);
    outcome_.after = std::move(after);
  }

  // Reports a finding in the place of that law's verdict.
  void report(LawVerdict finding) {
    auto place = std::ranges::lower_bound(outcome_.laws, finding.law, {}, &LawVerdict::law);
    if (place == outcome_.laws.end() || place->law != finding.law) place = outcome_.laws.insert(place, finding);
    *place = std::move(finding);
    outcome_.reported = place - outcome_.laws.begin();
    outcome_.needed = {place->law};
  }

  // A sound instance did not show it again: the other laws' calls, those before the case, or chance.
  CaseOutcome unshown(const std::vector<Asked>& before) {
    const std::size_t law = this->law();
    for (int i = 0; i < repeats; ++i)
      if (shows(ask(laws_), law)) {
        outcome_.needed.assign(laws_.begin(), laws_.end());
        return std::move(outcome_);
      }
    if (bench_.instance->may_search()) {
      const std::optional<CaseOutcome> shown = behind(before, laws_, law);
      if (!shown || died(outcome_)) bench_.instance->searched();
      if (shown) {
        const std::optional<CaseOutcome> alone = behind(before, std::span(&law, 1), law);
        take(alone ? *alone : *shown);
        outcome_.reported = std::ranges::find(outcome_.laws, law, &LawVerdict::law) - outcome_.laws.begin();
        outcome_.needed = alone ? std::vector{law} : std::vector(laws_.begin(), laws_.end());
        outcome_.after = before;
        return std::move(outcome_);
      }
    }
    flaky(*outcome_.finding(), "three repeats of the same calls did not show it again");
    return std::move(outcome_);
  }

  // The outcome on a fresh instance after those calls, if that law fails.
  std::optional<CaseOutcome> behind(const std::vector<Asked>& before, std::span<const std::size_t> laws,
                                    std::size_t law) {
    if (before.empty() || !fresh()) return std::nullopt;
    repeat_calls(before, bench_, contract_);
    sound_ = false;
    CaseOutcome outcome = check(problem_, contract_, bench_, laws);
    if (!shows(outcome, law)) return std::nullopt;
    return outcome;
  }

  void flaky(LawVerdict seen, const std::string& why) {
    report({seen.law, flaky_verdict(seen.verdict, why)});
    outcome_.needed.assign(laws_.begin(), laws_.end());
    outcome_.unrepeated = std::move(seen.verdict);
  }

  const Problem& problem_;
  const Contract& contract_;
  const Bench bench_;
  const std::span<const std::size_t> laws_;
  CaseOutcome outcome_, seen_;  // the present outcome, and the first one
  const Instance::Mark begin_;
  const std::function<bool(const CaseOutcome&)>& settled_;
  std::optional<Ailment> ill_;  // the instance's ailment when it was last looked at
  bool sound_ = false;
};

// Tells whether the contract excludes what was given for an element, and puts the ends of what it permits there.
bool excludes(const Contract& contract, const Problem& problem, Evidence& seen) {
  if (!std::isfinite(seen.got)) return false;
  const ops::Permitted permitted = problem.op().exchange(problem)->element(contract, seen.tensor, seen.index);
  if (permitted.undetermined || (permitted.number && seen.got >= permitted.lo && seen.got <= permitted.hi))
    return false;
  seen.lo = permitted.lo;
  seen.hi = permitted.hi;
  seen.ratio = std::fabs(seen.got - seen.expected) / std::max(seen.hi - seen.expected, seen.expected - seen.lo);
  seen.as_probed = false;
  return true;
}

// Puts the outcome by the contract that the subject declares in the place of one by what its probes showed, if that
// contract is broken, too. Where OutOfTime ends that check, an element of the policy bound is held to it without a call,
// and is cut off; anything else was not seen to hold or to fail, and OutOfTime passes on.
CaseOutcome by_declared(const Problem& problem, Bench bench, std::span<const std::size_t> laws,
                        const std::function<bool(const CaseOutcome&)>& settled, CaseOutcome seen) {
  const AsDeclared declared(bench, false);
  const Contract contract = problem.op().contract(declared.bench().subject.info(), problem);
  try {
    CaseOutcome outcome = check_confirmed(problem, contract, declared.bench(), laws, settled);
    outcome.subject_calls += seen.subject_calls;
    outcome.seconds += seen.seconds;
    if (outcome.reported) return outcome;
    seen.subject_calls = outcome.subject_calls;
    seen.seconds = outcome.seconds;
  } catch (const OutOfTime&) {
    LawVerdict& finding = seen.laws[*seen.reported];
    if (all_laws()[finding.law].name != policy_bound_name || !finding.verdict.evidence ||
        !excludes(contract, problem, *finding.verdict.evidence))
      throw;
    seen.as_probed = false;
    seen.cut_off = true;
  }
  return seen;
}

}  // namespace

Verdict flaky_verdict(const Verdict& seen, const std::string& why) {
  std::string reason = "was " + std::string(name(seen.kind));
  if (!seen.reason.empty()) reason += ": " + seen.reason;
  return {VerdictKind::flaky, reason + "; " + why, seen.evidence, {}};
}

CaseOutcome check_confirmed(const Problem& problem, const Contract& contract, Bench bench,
                            std::span<const std::size_t> laws, const std::function<bool(const CaseOutcome&)>& settled) {
  Instance unknown;
  if (!bench.instance) bench.instance = &unknown;
  const Instance::Mark begin = bench.instance->mark();
  CaseOutcome outcome = check(problem, contract, bench, laws);
  if (!outcome.reported) return outcome;
  outcome = Confirmation(problem, contract, bench, laws, std::move(outcome), begin, settled).run();
  return outcome.as_probed ? by_declared(problem, bench, laws, settled, std::move(outcome)) : outcome;
}

CaseOutcome confirm_late(const Problem& problem, const Contract& contract, Bench bench,
                         std::span<const std::size_t> laws, CaseOutcome seen) {
  Instance unknown;
  if (!bench.instance) bench.instance = &unknown;
  return Confirmation(problem, contract, bench, laws, std::move(seen), bench.instance->mark(), {}).run_late();
}

}  // namespace attest::engine
