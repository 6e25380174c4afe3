#include "engine/check.hpp"

#include <algorithm>
#include <chrono>
#include <memory>

#include "core/error.hpp"
#include "core/glob.hpp"
#include "core/rng.hpp"
#include "engine/instance.hpp"
#include "engine/recorder.hpp"
#include "engine/timed.hpp"
#include "properties/property.hpp"
#include "properties/trial.hpp"

namespace attest::engine {
namespace {

using properties::CallFailed;

constexpr std::uint64_t law_stream = 0x6C617773;  // keeps the choice of laws apart from the draw of the problem

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

Verdict unsupported(const std::string& why) { return Verdict::skip(std::string(unsupported_prefix) + why); }

Verdict verdict_of(const CallResult& result) {
  switch (result.status) {
    case CallStatus::unsupported:
      return unsupported(result.message);
    case CallStatus::crash:
      return {VerdictKind::crash, result.message, {}, {}};
    case CallStatus::timeout:
      return {VerdictKind::timeout, result.message, {}, {}};
    case CallStatus::error:
    case CallStatus::done:
      break;
  }
  return {VerdictKind::error, result.message, {}, {}};
}

// A trial, and what it is of.
struct Asking {
  ops::Trial& trial;
  const Problem& problem;
  const Contract& contract;
  const SubjectInfo& info;
  Noting& subject;
};

// `lost`: whether an error of one of its calls ended the instance.
Verdict run_law(const Law& law, const Asking& asking, bool& lost) {
  if (const auto reason = law.not_applicable(asking.problem, asking.contract, asking.info))
    return Verdict::skip(*reason);
  try {
    return asking.trial.check(law);
  } catch (const CallFailed& failed) {
    lost = failed.result.lost;
    return verdict_of(failed.result);
  } catch (const NotReserved& refused) {
    return unsupported(refused.what());
  } catch (const TooLarge&) {  // more samples or keys than the case has, and those 2^32 elements apart
    return Verdict::skip("what it asks has a tensor that is larger than attest lays out");
  }
}

bool peer_reports_an_error(ops::Trial& trial) {
  try {
    trial.peer_base();
  } catch (const CallFailed& failed) {
    return failed.result.status == CallStatus::error;
  }
  return false;
}

// The verdict on a base call that failed when two subjects are compared: an error that both report is no difference.
Verdict verdict_of_two(ops::Trial& trial, CallResult failed) {
  if (failed.status == CallStatus::error && peer_reports_an_error(trial))
    return Verdict::skip("both subjects report an error");
  failed.message = properties::subject_prefix + failed.message;
  return verdict_of(failed);
}

// A base call that fails is the finding of the first law, and ends the case; so does a later one that does not return.
// Time that runs out takes nothing away that was seen to fail.
void run_laws(const Asking& asking, std::span<const std::size_t> laws, bool compares, CaseOutcome& outcome) {
  ops::Trial& trial = asking.trial;
  const auto all = all_laws();
  const auto leave_rest = [&](std::size_t first, const char* why = "not run: a call did not return") {
    for (std::size_t n = first; n < outcome.laws.size(); ++n) outcome.laws[n].verdict = Verdict::skip(why);
  };
  outcome.laws.reserve(laws.size());
  for (const std::size_t law : laws) outcome.laws.emplace_back().law = law;
  try {
    trial.base();
  } catch (const CallFailed& failed) {
    outcome.laws.front().verdict = compares ? verdict_of_two(trial, failed.result) : verdict_of(failed.result);
    outcome.laws.front().lost = failed.result.lost;
    if (outcome.laws.front().verdict.kind == VerdictKind::skip)
      for (LawVerdict& law : outcome.laws) law.verdict = outcome.laws.front().verdict;
    else
      leave_rest(1);
    return;
  }
  for (std::size_t n = 0; n < outcome.laws.size(); ++n) {
    LawVerdict& law = outcome.laws[n];
    try {
      law.verdict = run_law(all[law.law], asking, law.lost);
    } catch (const OutOfTime&) {
      if (std::none_of(outcome.laws.begin(), outcome.laws.begin() + static_cast<std::ptrdiff_t>(n),
                       [](const LawVerdict& before) { return is_finding(before.verdict.kind); }))
        throw;
      return leave_rest(n, "not run: time was over");
    }
    if (std::optional<Problem> call = asking.subject.take_failed(); is_finding(law.verdict.kind))
      law.call = std::move(call);
    if (law.died()) return leave_rest(n + 1);
  }
}

// Notes in what failed that the contract is one that probes showed.
void note_probed(const Problem& problem, const Contract& contract, const SubjectInfo& info, CaseOutcome& outcome) {
  if (!info.declared || contract == problem.op().contract(*info.declared, problem)) return;
  for (LawVerdict& law : outcome.laws)
    if (law.verdict.kind == VerdictKind::fail && law.verdict.evidence) law.verdict.evidence->as_probed = true;
  outcome.as_probed = outcome.finding()->verdict.kind == VerdictKind::fail;
}

// After a death the next call finds a fresh instance.
void tell(Instance& instance, const Problem& problem, std::span<const std::size_t> laws, const CaseOutcome& outcome) {
  instance.asked(problem, laws);
  if (std::ranges::any_of(outcome.laws, &LawVerdict::died)) instance.started();
}

}  // namespace

Seconds& Seconds::operator+=(const Seconds& other) noexcept {
  draw += other.draw;
  values += other.values;
  subject += other.subject;
  oracle += other.oracle;
  laws += other.laws;
  shrink += other.shrink;
  return *this;
}

bool CaseOutcome::executed() const noexcept {
  return std::ranges::any_of(laws, [](const LawVerdict& law) {
    return law.verdict.kind != VerdictKind::skip && law.verdict.kind != VerdictKind::vacuous;
  });
}

FailureKey CaseOutcome::key() const {
  const LawVerdict& law = laws[*reported];
  return key_of(all_laws()[law.law].name, law.verdict);
}

bool is_statistical(std::size_t law) { return all_laws()[law].kind == properties::Kind::statistical; }

std::string_view basis(std::string_view law) noexcept {
  const Law* found = find_law(law);
  return found != nullptr && found->kind == properties::Kind::statistical ? "statistic" : "proof";
}

bool compares(std::string_view law) noexcept { return law == compare_bound_name || law == compare_bits_name; }

void validate(const LawChoice& choice) {
  if (choice.property_glob.empty()) return;
  bool statistic = false;
  for (const Law& law : all_laws()) {
    if (compares(law.name) || !any_glob_matches(choice.property_glob, law.name)) continue;
    if (choice.statistics || law.kind != properties::Kind::statistical) return;
    statistic = true;
  }
  if (statistic)
    throw usage_error("--property " + choice.property_glob +
                      " matches statistics alone, which --no-statistics leaves out: leave one of the two out");
  throw usage_error("--property " + choice.property_glob + " matches no property: `attest list properties` names them");
}

namespace {

// The laws of an operation that ask for nothing but the base call, which are the same for each of its problems.
const std::vector<std::size_t>& base_laws(const Op& op) {
  thread_local const Op* of = nullptr;
  thread_local std::vector<std::size_t> found;
  if (of == &op) return found;
  of = &op;
  found.clear();
  const auto all = all_laws();
  for (std::size_t law = 0; law < all.size(); ++law)
    if (all[law].op == &op && !compares(all[law].name) && all[law].base_call()) found.push_back(law);
  return found;
}

}  // namespace

std::vector<std::size_t> choose_laws(const LawChoice& choice, const Problem& problem, const Contract& contract,
                                     const SubjectInfo& info, std::uint64_t seed, std::uint64_t case_number,
                                     std::uint64_t repeat) {
  const Op& op = problem.op();
  if (choice.compare == LawChoice::Compare::bound) return {law_named(compare_bound_name, op)};
  if (choice.compare == LawChoice::Compare::bits)
    return {law_named(compare_bound_name, op), law_named(compare_bits_name, op)};
  if (choice.statistics && choice.property_glob.empty() && choice.further == std::size_t{0}) return base_laws(op);
  const auto all = all_laws();
  const bool new_plan = case_number % repeat == 0;
  std::vector<std::size_t> chosen, others;
  chosen.reserve(all.size());
  for (std::size_t law = 0; law < all.size(); ++law) {
    if (all[law].op != &op || compares(all[law].name) || (!choice.statistics && is_statistical(law))) continue;
    if (!choice.property_glob.empty()) {
      if (any_glob_matches(choice.property_glob, all[law].name)) chosen.push_back(law);
    } else if (all[law].base_call() || !choice.further) {
      chosen.push_back(law);
    } else if (new_plan || all[law].keeps_plan()) {
      others.push_back(law);
    }
  }
  // Chooses, of those that apply, the K smallest of one random number each, which does not change when another
  // operation gets a law. Asking all of them whether they apply takes longer than a small problem.
  const std::uint64_t key = extend(extend(mix(seed), law_stream), case_number);
  const auto rank = [key, all](std::size_t law) { return extend(key, all[law].own); };
  std::size_t left = choice.further.value_or(0);
  if (left > 0) std::ranges::sort(others, {}, rank);
  for (auto other = others.begin(); left > 0 && other != others.end(); ++other) {
    if (all[*other].not_applicable(problem, contract, info)) continue;
    chosen.push_back(*other);
    --left;
  }
  std::ranges::sort(chosen);
  return chosen;
}

CaseOutcome check(const Problem& problem, const Contract& contract, Bench bench,
                  std::span<const std::size_t> laws) try {
  const auto start = std::chrono::steady_clock::now();
  CaseOutcome outcome;
  Noting subject(bench.subject, problem);
  const std::unique_ptr<ops::Trial> made = problem.op().trial(problem, contract, subject, bench.peer);
  ops::Trial& trial = *made;
  if (!laws.empty()) run_laws({trial, problem, contract, subject.info(), subject}, laws, bench.compares, outcome);
  for (std::size_t i = 0; i < outcome.laws.size() && !outcome.reported; ++i)
    if (is_finding(outcome.laws[i].verdict.kind)) outcome.reported = i;
  if (outcome.reported) {
    outcome.needed = {outcome.finding()->law};
    note_probed(problem, contract, bench.subject.info(), outcome);
  }
  outcome.subject_calls = trial.subject_calls();
  if (bench.instance) tell(*bench.instance, problem, laws, outcome);
  const auto& elapsed = trial.elapsed();
  outcome.seconds.values = static_cast<double>(elapsed.values) * 1e-9;
  outcome.seconds.subject = static_cast<double>(elapsed.subject) * 1e-9;
  outcome.seconds.oracle = static_cast<double>(elapsed.oracle) * 1e-9;
  outcome.seconds.laws =
      seconds_since(start) - outcome.seconds.values - outcome.seconds.subject - outcome.seconds.oracle;
  return outcome;
} catch (const NotReserved& refused) {  // the problem's own tensors did not fit
  CaseOutcome outcome;
  for (const std::size_t law : laws) outcome.laws.push_back({law, unsupported(refused.what())});
  return outcome;
}

}  // namespace attest::engine
