#include "engine/explain/explain.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/error.hpp"
#include "engine/explain/parts.hpp"
#include "engine/replay.hpp"
#include "engine/restated.hpp"
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
    one.in_part = one.work() > limits.oracle_work;
    one.outside =
        std::ranges::any_of(one.elements, [](const Element& e) { return e.outcome == oracle::Outcome::outside; });
  }
  return all;
}

bool Evidenced::complete() const {
  return left_out == 0 &&
         std::ranges::all_of(calls, [](const KeptCall& call) { return call.result().status == CallStatus::done; });
}

std::size_t first_outside(std::span<const Heard> calls) {
  return static_cast<std::size_t>(std::ranges::find(calls, true, &Heard::outside) - calls.begin());
}

namespace {

Verdict verdict_of(const CaseOutcome& outcome, std::size_t law) {
  if (const LawVerdict* finding = outcome.finding()) {
    const auto own = std::ranges::find(outcome.laws, law, &LawVerdict::law);
    return own != outcome.laws.end() && is_finding(own->verdict.kind) ? own->verdict : finding->verdict;
  }
  const auto own = std::ranges::find(outcome.laws, law, &LawVerdict::law);
  return own != outcome.laws.end() ? own->verdict : Verdict::skip("its law was not asked");
}

}  // namespace

Evidenced ask(const Entry& entry, const Problem& problem, Bench bench, const ExplainLimits& limits) {
  const std::optional<Policy> policy = entry.policy_given ? std::optional(policy_of(entry.contract)) : std::nullopt;
  const SubjectInfo& info = info_judged_by(bench.subject.info(), entry.as_probed);
  Evidenced asked{contract_for_problem(info, policy, problem), {}, {}, 0, 0, {}};
  Witnessing witness(bench.subject);
  const Bench seen{witness, bench.peer, nullptr, bench.quiet, bench.compares};
  if (const std::vector<Asked> before = calls_before(entry); !before.empty())
    repeat_calls(before, seen, asked.contract);
  asked.first_own = witness.calls().size();
  asked.verdict =
      verdict_of(check(problem, asked.contract, seen, laws_of(entry)), law_named(entry.property, problem.op()));
  asked.left_out = witness.left_out();
  asked.calls = witness.calls();
  asked.heard = heard(asked.calls, problem.op(), asked.contract, limits);
  return asked;
}

Before before_shrinking(const Entry& entry) {
  if (entry.original.empty()) return {};
  try {
    Problem original = problem_from_text(entry.original);
    if (original == entry.problem) return {};
    return {true, std::move(original)};
  } catch (const Error&) {
    return {true, std::nullopt};
  }
}

}  // namespace explaining

namespace {

constexpr Index most_work_of_changes = Index{1} << 16;
constexpr int most_reruns = 50;  // runs of a failure that does not always show

bool passes(const Verdict& verdict) { return verdict.kind == VerdictKind::pass || verdict.kind == VerdictKind::warn; }

// Further problems: the one before it was shrunk, and those that differ from it in one respect.
void ask_further(const Entry& entry, Bench bench, const ShrinkLimits& shrinking, const Budget& budget,
                 std::vector<Evidenced>& all, Explanation& into) {
  const auto ask_one = [&](const Problem& problem) {
    renew(bench);
    all.push_back(ask(entry, problem, bench, budget.limits));
    const Verdict verdict = all.back().verdict;
    if (!all.back().complete()) all.pop_back();
    return verdict;
  };
  const Before before = before_shrinking(entry);
  into.was_shrunk = before.shrunk;
  if (before.problem && work_of(*before.problem) <= budget.limits.hypothesis_work / 8) {
    ask_one(*before.problem);
    if (all.size() > 1) all.back().original = true;
  }
  if (budget.limits.changes == 0) return;
  int left = std::min<int>(budget.limits.changes,
                           static_cast<int>(most_work_of_changes / std::max<Index>(work_of(entry.problem), 1)));
  for (const Candidate& change : changes(entry.problem, shrinking)) {
    if (left-- <= 0 || budget.over()) {
      into.changes_complete = false;
      break;
    }
    const Verdict verdict = ask_one(change.problem);
    if (passes(verdict))
      into.passes_at.push_back(change.change);
    else if (is_finding(verdict.kind))
      into.fails_at.push_back(change.change);
  }
}

// Tells whether two calls that are the same in every byte were answered otherwise.
bool answers_differ(const std::vector<KeptCall>& calls) {
  for (std::size_t i = 0; i < calls.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (calls[i].asks_as(calls[j]) && !calls[i].same(calls[j].answered())) return true;
  return false;
}

// Tells whether other bytes around its tensors make another answer, while the same bytes do not.
bool reads_beyond(const KeptCall& call, Subject& subject) {
  if (call.result().status != CallStatus::done) return false;
  const auto answered = [&](std::optional<std::byte> around) {
    CallCopy copy = call.again(around);
    if (subject.run_one(copy.call()).status != CallStatus::done) return call.answered();
    return copy;
  };
  const CallCopy once = answered(std::nullopt), other = answered(std::byte{0});
  return KeptCall::same_elements(once, call.answered()) && !KeptCall::same_elements(once, other);
}

// The law that failed, and its problem; no problem where numbers that were saved are explained.
struct LawAsked {
  std::string_view law;
  const Problem* problem = nullptr;
};

// ---- the stage ------------------------------------------------------------------------------------------------------

// The one tensor that has all elements outside, if it is not the first that the operation gives: its error follows from
// no tensor before it. Else empty.
std::string only_tensor(std::span<const Evidenced> all) {
  std::string_view only;
  for (const Evidenced& evidence : all)
    for (const Heard& call : evidence.heard)
      for (const Element& e : call.elements) {
        if (e.outcome != oracle::Outcome::outside) continue;
        if (!only.empty() && e.tensor != only) return {};
        const auto slots =
            call.call->result().status == CallStatus::done ? call.call->shape().tensors : std::span<const TensorSlot>();
        const auto first = std::ranges::find_if(slots, &TensorSlot::written);
        if (first == slots.end() || first->name == e.tensor) return {};
        only = e.tensor;
      }
  return std::string(only);
}

// The stage that overflows in every element of a call that is not finite and should be, and in which nothing else is
// outside.
std::string overflowing(std::span<const Evidenced> all) {
  const Evidenced& evidence = all.front();
  const std::size_t told = first_outside(evidence.heard);
  if (told == evidence.heard.size()) return {};
  std::string_view stage;
  for (const Element& e : evidence.heard[told].elements) {
    if (e.outcome != oracle::Outcome::outside) continue;
    if (std::isfinite(e.got) || !e.number) return {};
    const std::string_view its = evidence.heard[told].reading->overflowing_stage(evidence.contract, e);
    if (its.empty() || (!stage.empty() && its != stage)) return {};
    stage = its;
  }
  return std::string(stage);
}

// The first stage that is given and out of its bound, or what goes wrong behind the stages before it; else a fault
// that gives the numbers on every problem; else another meaning that permits them on every problem; else what was
// written; else formats and numbers that permit them on every problem; else what overflows, or what the law that failed
// holds apart; else the first two on this problem alone.
void tell_stage(std::span<const Evidenced> all, const LawAsked& asked, Explanation& into) {
  using Match = Hypothesis::Match;
  using Kind = ops::Departure::Kind;
  const auto by = [&](std::string stage, std::string why) {
    into.stage = std::move(stage);
    into.stage_by = std::move(why);
  };
  const auto out = std::ranges::find_if(into.stages, [](const StageSeen& stage) { return stage.wrong > 0; });
  const bool staged = out != into.stages.end();
  const std::size_t told = first_outside(all.front().heard);
  const ops::Reading* reading = told < all.front().heard.size() ? all.front().heard[told].reading.get() : nullptr;
  const auto may_be = [&](std::string_view stage) {
    return !staged || (reading != nullptr && reading->lies_within(stage, out->name));
  };
  const auto hypothesis = [&](bool everywhere) {
    return std::ranges::find_if(into.hypotheses, [&](const Hypothesis& h) {
      return h.match != Match::partly && (h.everywhere() || !everywhere) && may_be(h.stage);
    });
  };
  const auto fit = [&](bool everywhere, bool semantics) {
    return std::ranges::find_if(into.fits, [&](const Fit& f) {
      return (f.kind == Kind::semantics) == semantics && (f.everywhere() || !everywhere) && may_be(f.stage);
    });
  };
  const auto none_h = into.hypotheses.end();
  const auto none_f = into.fits.end();
  if (const auto h = hypothesis(true); h != none_h) return by(h->stage, h->name);
  if (const auto f = fit(true, true); f != none_f) return by(f->stage, f->words);
  if (!staged && into.verdict.evidence && into.verdict.evidence->wrong == Wrong::memory)
    return by("memory", "what was written, or was not");
  if (const auto f = fit(true, false); f != none_f) return by(f->stage, f->words);
  // Several promises may permit a stage: one stage alone is told only where all of them name it.
  if (const auto& fits = into.fits_of_stage;
      !fits.empty() && std::ranges::all_of(fits, [&](const Fit& fit) { return fit.stage == fits.front().stage; }))
    return by(fits.front().stage, fits.front().words);
  if (staged) return by(out->name, "the first that is given and out of its bound");
  if (const std::string tensor = only_tensor(all); !tensor.empty()) return by(tensor, "nothing else is wrong");
  if (into.answers_differ) return by("memory", "the same call gives other numbers, and some that are wrong");
  if (into.reads_beyond) return by("memory", "what lies around its tensors changes the numbers");
  if (const std::string stage = overflowing(all); !stage.empty())
    return by(stage, "it alone overflows where what should be a number is none");
  if (asked.problem != nullptr)
    if (const std::string_view stage =
            asked.problem->op().isolated_stage(asked.law, *asked.problem, all.front().contract, into.verdict);
        !stage.empty())
      return by(std::string(stage), fmt::format("{}, which holds it apart from others", asked.law));
  if (const auto h = hypothesis(false); h != none_h) return by(h->stage, h->name + ", on this problem");
  if (const auto f = fit(false, true); f != none_f) return by(f->stage, f->words + ", on this problem");
  if (!into.fits.empty()) return by(into.fits.front().stage, into.fits.front().words + ", on this problem");
  if (!into.hypotheses.empty()) by(into.hypotheses.front().stage, into.hypotheses.front().name + ", in part");
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
  const Op& op = entry.problem.op();
  const int tries =
      entry.shown ? std::clamp(1 + 7 * entry.shown->runs / std::max(entry.shown->seen, 1), 2, most_reruns) : 2;
  std::vector<Evidenced> all(1);
  for (int i = 0; i < tries && !is_finding(all.front().verdict.kind); ++i) {
    renew(bench);
    all.front() = ask(entry, entry.problem, bench, limits);
    if (passes(all.front().verdict) && !entry.shown) break;
  }
  const Evidenced& asked = all.front();
  told.verdict = asked.verdict;
  told.fails = is_finding(told.verdict.kind);
  told.calls = asked.calls.size() + asked.left_out;
  told.calls_kept = asked.calls.size();
  if (!told.fails) {
    told.seconds = budget.elapsed();
    return told;
  }
  if (asked.left_out > 0)
    told.notes.push_back(std::to_string(asked.left_out) +
                         " of its calls were not kept: too large, or far apart in memory");
  if (!asked.calls.empty()) {
    const std::size_t outside = first_outside(asked.heard);
    told.outside = outside < asked.heard.size();
    told.in_part = std::ranges::any_of(asked.heard, &Heard::in_part);
    const std::size_t of = told.outside ? outside : std::min(asked.first_own, asked.heard.size() - 1);
    told.own_call = of == asked.first_own;
    if (told.outside) {
      told.wrong_call = outside + 1;
      told.where = wrong_places(asked.heard[outside]);
      renew(bench);
      told.reads_beyond = reads_beyond(asked.calls[outside], bench.subject);
      renew(bench);
      told.stages = stages_of(asked.heard[outside], asked.contract, bench.subject);
    }
    told.lies = lies(asked.calls[of].again().call());
  }
  told.answers_differ = told.outside && answers_differ(asked.calls);
  ask_further(entry, bench, shrinking, budget, all, told);
  renew(bench);
  if (told.was_shrunk && std::ranges::none_of(all, &Evidenced::original))
    told.notes.emplace_back(
        "planted faults: what the problem was shrunk from could not be asked, or is too large, and a small one alone "
        "names none");
  else if (!all.front().calls.empty())
    find_hypotheses(all, op, budget, told);
  find_fits(all, op, budget, told);
  tell_stage(all, {entry.property, &entry.problem}, told);
  told.seconds = budget.elapsed();
  return told;
}

ExplainLimits limits_in_a_report(std::optional<double> seconds) {
  ExplainLimits limits;
  limits.oracle_work = Index{1} << 20;
  limits.hypothesis_work = Index{1} << 24;
  limits.fit_work = Index{1} << 26;
  limits.changes = 0;
  limits.seconds = seconds;
  return limits;
}

Explanation explain_call(const KeptCall& call, const Op& op, const Contract& contract, const ExplainLimits& limits) {
  const Budget budget(limits);
  Explanation told;
  std::vector<Evidenced> all;
  all.push_back({contract, {}, {call}, 0, 0, {}});
  Evidenced& only_one = all.front();
  only_one.heard = heard(only_one.calls, op, contract, limits);
  told.calls = told.calls_kept = 1;
  told.outside = first_outside(only_one.heard) == 0;
  told.stages = stages_given(only_one.heard.front(), contract);
  told.fails = told.outside || std::ranges::any_of(told.stages, [](const StageSeen& stage) { return stage.wrong > 0; });
  if (told.fails) {
    told.lies = lies(call.again().call());
    if (told.outside) {
      told.wrong_call = 1;
      told.where = wrong_places(only_one.heard.front());
      find_hypotheses(all, op, budget, told);
      find_fits(all, op, budget, told);
    }
    told.fits_of_stage = fits_of_stage(only_one.heard.front(), contract, budget);
    tell_stage(all, {}, told);
  }
  told.seconds = budget.elapsed();
  return told;
}

}  // namespace attest::engine
