#include "engine/explain/explain.hpp"

#include <algorithm>
#include <utility>

#include "core/error.hpp"
#include "engine/explain/parts.hpp"
#include "engine/replay.hpp"
#include "engine/sound.hpp"
#include "engine/stream.hpp"

namespace attest::engine {

using namespace explaining;

namespace explaining {

std::vector<Heard> heard(const std::vector<KeptCall>& calls, const Op& op, const Contract& contract,
                         const ExplainLimits& limits) {
  std::vector<Heard> all;
  const Format stored = storage_of(policy_of(contract));
  for (const KeptCall& call : calls) {
    Heard& one = all.emplace_back();
    one.call = &call;
    if (call.result().status != CallStatus::done) continue;
    const CallCopy answered = call.answered();
    const auto dtype = dtype_of(answered.call().first().dtype);
    if (!dtype || format_of(*dtype) != stored) continue;
    one.reading = op.reading(answered.call());
    if (!one.reading) continue;
    one.elements = one.reading->elements(contract, 0, limits.oracle_work);
    one.outside =
        std::ranges::any_of(one.elements, [](const Element& e) { return e.outcome == oracle::Outcome::outside; });
  }
  return all;
}

std::size_t first_outside(std::span<const Heard> calls) {
  return static_cast<std::size_t>(std::ranges::find(calls, true, &Heard::outside) - calls.begin());
}

}  // namespace explaining

namespace {

constexpr int most_tries = 50;  // of a failure that does not always show

// What asking an entry's problem once gave.
struct Asked_once {
  Verdict verdict;
  std::vector<KeptCall> calls;
  std::size_t left_out = 0;
  std::size_t first_own = 0;  // the first that is not of the calls before
};

Verdict verdict_of(const CaseOutcome& outcome, std::size_t law) {
  if (const LawVerdict* finding = outcome.finding()) {
    const auto own = std::ranges::find(outcome.laws, law, &LawVerdict::law);
    return own != outcome.laws.end() && is_finding(own->verdict.kind) ? own->verdict : finding->verdict;
  }
  const auto own = std::ranges::find(outcome.laws, law, &LawVerdict::law);
  return own != outcome.laws.end() ? own->verdict : Verdict::skip("its law was not asked");
}

Asked_once ask(const Entry& entry, const Problem& problem, const Contract& contract, Bench bench) {
  Witnessing witness(bench.subject);
  Bench seen{witness, bench.peer, bench.calibration, nullptr, bench.quiet, bench.compares};
  Asked_once once;
  if (const std::vector<Asked> before = calls_before(entry); !before.empty()) repeat_calls(before, seen, contract);
  once.first_own = witness.calls().size();
  once.verdict = verdict_of(check(problem, contract, seen, laws_of(entry)), law_named(entry.property, problem.op()));
  once.left_out = witness.left_out();
  once.calls = witness.calls();
  return once;
}

bool passes(const Verdict& verdict) { return verdict.kind == VerdictKind::pass || verdict.kind == VerdictKind::warn; }

// What further problems say of alternatives that the first leaves alike: the problem before it was shrunk, and those that differ
// from it in one respect.
class Further {
 public:
  Further(const Entry& entry, Bench bench, const ShrinkLimits& shrinking, const Budget& budget, Explanation& into)
      : entry_(entry), bench_(bench), shrinking_(shrinking), budget_(budget), into_(into) {}

  void before_shrinking() {
    if (entry_.original.empty() || into_.alike() < 2) return;
    try {
      const Problem original = problem_from_text(entry_.original);
      if (original == entry_.problem || work_of(original) > budget_.limits.hypothesis_work / 64) return;
      ask_one(original);
    } catch (const Error&) {
      // Captured values that are not here, or a problem that this version does not draw: there is nothing to add.
    }
  }

  void changed() {
    const Problem& problem = entry_.problem;
    int left = budget_.limits.changes;
    for (const Candidate& change : changes(problem, shrinking_)) {
      if (left-- <= 0 || budget_.over()) {
        into_.changes_complete = false;
        break;
      }
      const Verdict verdict = ask_one(change.problem);
      if (passes(verdict))
        into_.passes_at.push_back(change.change);
      else if (is_finding(verdict.kind))
        into_.fails_at.push_back(change.change);
    }
  }

 private:
  Verdict ask_one(const Problem& problem) {
    const std::optional<Policy> policy = entry_.policy_given ? std::optional(policy_of(entry_.contract)) : std::nullopt;
    const Contract contract = contract_for_problem(bench_.subject.info(), policy, problem);
    if (into_.alike() > 1 || !entry_.after.empty()) renew(bench_);
    Asked_once once = ask(entry_, problem, contract, bench_);
    const bool answered = once.left_out == 0 && std::ranges::all_of(once.calls, [](const KeptCall& call) {
                            return call.result().status == CallStatus::done;
                          });
    if (answered) tell_apart(once.calls, problem.op(), contract, into_);
    return once.verdict;
  }

  const Entry& entry_;
  Bench bench_;
  const ShrinkLimits& shrinking_;
  const Budget& budget_;
  Explanation& into_;
};

// ---- the stage -------------------------------------------------------------------------------------------------------------

// A hypothesis that gives the numbers; else a reading of the call or contract that permits them; else a fault that comes near;
// else a number format; else what law and tensor say.
void tell_stage(Explanation& into) {
  const auto by = [&](std::string stage, std::string why) {
    into.stage = std::move(stage);
    into.stage_by = std::move(why);
  };
  using Match = Hypothesis::Match;
  const auto out = std::ranges::find_if(into.stages, [](const StageSeen& stage) { return stage.wrong > 0; });
  if (out != into.stages.end()) return by(out->name, "the first that the subject gives and that is out of its bound");
  const Hypothesis* first = into.hypotheses.empty() ? nullptr : &into.hypotheses.front();
  if (first && first->match != Match::partly) return by(first->stage, first->name);
  const auto fit = std::ranges::find(into.fits, ops::Departure::Kind::semantics, &Fit::kind);
  if (fit != into.fits.end()) return by(fit->stage, fit->words);
  const bool memory = into.verdict.evidence && into.verdict.evidence->wrong == Wrong::memory;
  if (memory) return by("memory", "what was written, or was not");
  if (!into.fits.empty()) return by(into.fits.front().stage, into.fits.front().words);
  if (into.where.size() == 1 && into.where.front().tensor == "lse") return by("lse", "only lse is wrong");
  if (first) return by(first->stage, first->name + ", in part");
}

}  // namespace

std::size_t Explanation::alike() const {
  if (hypotheses.empty() || hypotheses.front().match == Hypothesis::Match::partly) return hypotheses.empty() ? 0 : 1;
  const auto first = hypotheses.front();
  return static_cast<std::size_t>(std::ranges::count_if(
      hypotheses, [&](const Hypothesis& h) { return h.match == first.match && h.also == first.also; }));
}

Explanation explain(const Entry& entry, Bench bench, const ShrinkLimits& shrinking, const ExplainLimits& limits) {
  const Budget budget(limits);
  Explanation told;
  const std::optional<Policy> policy = entry.policy_given ? std::optional(policy_of(entry.contract)) : std::nullopt;
  const Problem& problem = entry.problem;
  const Op& op = problem.op();
  const Contract contract = contract_for_problem(bench.subject.info(), policy, problem);
  const int tries =
      entry.shown ? std::clamp(1 + 7 * entry.shown->runs / std::max(entry.shown->seen, 1), 2, most_tries) : 2;
  Asked_once once;
  for (int i = 0; i < tries && !is_finding(once.verdict.kind); ++i) {
    renew(bench);
    once = ask(entry, problem, contract, bench);
    if (passes(once.verdict) && !entry.shown) break;
  }
  told.verdict = once.verdict;
  told.fails = is_finding(once.verdict.kind);
  told.calls = once.calls.size() + once.left_out;
  told.calls_kept = once.calls.size();
  if (!told.fails) {
    told.seconds = budget.elapsed();
    return told;
  }
  if (once.left_out > 0)
    told.notes.push_back(std::to_string(once.left_out) +
                         " of its calls were not kept: too large, or far apart in memory");
  if (!once.calls.empty()) {
    const std::vector<Heard> calls = heard(once.calls, op, contract, limits);
    const std::size_t outside = first_outside(calls);
    told.outside = outside < calls.size();
    if (told.outside) {
      told.wrong_call = outside + 1;
      told.own_call = outside == once.first_own;
      told.where = wrong_places(calls[outside]);
    }
    const std::size_t of = told.outside ? outside : std::min(once.first_own, calls.size() - 1);
    told.lies = lies(calls[of].call->again().call());
    find_hypotheses(calls, op, contract, budget, told);
    find_fits(calls, contract, budget, told);
    if (told.outside) told.stages = stages_of(calls[outside], contract, bench.subject);
  }
  Further further(entry, bench, shrinking, budget, told);
  further.before_shrinking();
  if (limits.changes > 0) further.changed();
  renew(bench);
  tell_stage(told);
  told.seconds = budget.elapsed();
  return told;
}

ExplainLimits limits_in_a_report(std::optional<double> seconds) {
  ExplainLimits limits;
  limits.oracle_work = Index{1} << 20;
  limits.hypothesis_work = Index{1} << 24;
  limits.changes = 0;
  limits.seconds = seconds;
  return limits;
}

Explanation explain_call(const KeptCall& call, const Op& op, const Contract& contract, const ExplainLimits& limits) {
  const Budget budget(limits);
  Explanation told;
  std::vector<KeptCall> one{call};
  const std::vector<Heard> calls = heard(one, op, contract, limits);
  told.calls = told.calls_kept = 1;
  told.outside = told.fails = first_outside(calls) == 0;
  if (told.fails) {
    told.wrong_call = 1;
    told.where = wrong_places(calls.front());
    told.lies = lies(call.again().call());
    find_hypotheses(calls, op, contract, budget, told);
    find_fits(calls, contract, budget, told);
    tell_stage(told);
  }
  told.seconds = budget.elapsed();
  return told;
}

}  // namespace attest::engine
