#include <algorithm>
#include <utility>

#include "core/mha/call.hpp"
#include "core/mha/inputs.hpp"
#include "ensemble/mha.hpp"
#include "ensemble/redraws.hpp"
#include "ops/mha/parts.hpp"
#include "ops/mha/probe/parts.hpp"
#include "oracle/mha/mha.hpp"
#include "properties/compare.hpp"
#include "properties/ensemble.hpp"
#include "properties/guarded.hpp"
#include "properties/mha/laws.hpp"
#include "properties/mha/pair.hpp"
#include "properties/pair.hpp"
#include "properties/trial.hpp"

namespace attest::ops::of_mha {
namespace {

using attest::mha::Inputs;
using attest::mha::StageOutputs;
using oracle::MhaOracle;
using probing::narrow_stage;
using properties::BlockLaw;
using properties::BlockTrial;
using properties::CallFailed;
using properties::Stopwatch;

// The order in which a failing case is reported: laws that name a stage come before laws that name a symptom.
enum : std::size_t { guards, stage_bound, first_law };
std::size_t policy_bound() { return first_law + properties::block_laws().size(); }
std::size_t block_layout() { return policy_bound() + 1; }
std::size_t ensemble_error() { return block_layout() + 1; }
std::size_t compare_bound() { return ensemble_error() + 1; }
std::size_t compare_bits() { return compare_bound() + 1; }

constexpr const char* one_layout = "the subject takes one layout";

class MhaTrial final : public Trial {
 public:
  MhaTrial(const Problem& problem, const Contract& contract, Subject& subject, Subject* peer)
      : problem_(problem), contract_(contract), subject_(subject), peer_(peer) {
    const Stopwatch watch(elapsed_.values);
    inputs_ = materialise(problem_);
  }

  void base() override {
    if (!base_) base_ = call(inputs_, {});
    if (base_->call.status != CallStatus::done) throw CallFailed(base_->call);
  }
  // Only the laws of two subjects ask a peer.
  void peer_base() override {
    std::int64_t calls_of_peer = 0;
    if (!peer_base_) peer_base_ = asked(*peer_, inputs_, {}, calls_of_peer, elapsed_.subject);
    if (peer_base_->call.status != CallStatus::done) throw properties::failed_peer(peer_base_->call);
  }
  Verdict check(const Law& law) override {
    base();
    if (law.own == narrow_stage) return check_narrow_stage();
    if (law.own == guards) return check_guards();
    if (law.own == stage_bound) return check_stages();
    if (law.own == policy_bound()) return judgement();
    if (law.own == block_layout()) return check_layout();
    if (law.own == ensemble_error()) return check_ensemble();
    if (law.own > ensemble_error()) return check_pair(law.own == compare_bits());
    return check_law(properties::block_laws()[law.own - first_law]);
  }
  [[nodiscard]] std::int64_t subject_calls() const noexcept override { return subject_calls_; }
  [[nodiscard]] properties::Trial::Nanoseconds elapsed() const noexcept override { return elapsed_; }

 private:
  Answer call(const Inputs& inputs, const StageOutputs& stages) {
    return asked(subject_, inputs, stages, subject_calls_, elapsed_.subject);
  }

  Verdict check_guards() const {
    if (base_->violation) return Verdict::fail(*base_->violation);
    return Verdict::pass({.judged = base_->out.size()});
  }

  // The oracle of the base call, and the proven bound's verdict; made once.
  MhaOracle& oracle() {
    if (!oracle_) {
      base_call_ = inputs_.call(base_->out);
      oracle_ = std::make_unique<MhaOracle>(contract_, base_call_);
    }
    return *oracle_;
  }
  const Verdict& judgement() {
    if (!judgement_) {
      const Stopwatch watch(elapsed_.oracle);
      judgement_ = oracle().judge(base_->out);
    }
    return *judgement_;
  }

  // Both results lie in one enclosure, so that they differ by no more than its width.
  Verdict check_layout() {
    const auto moved = in_another_layout(problem_, subject_.info().mha.value().supports);
    if (!moved) return Verdict::skip(one_layout);
    const Inputs inputs = laid_as(*moved, inputs_);
    Answer other = call(inputs, {});
    if (other.call.status != CallStatus::done) throw CallFailed(other.call);
    if (other.violation) return Verdict::fail(std::move(*other.violation));
    const Verdict& of_base = judgement();
    const Stopwatch watch(elapsed_.oracle);
    const attest::mha::Call of_other = inputs.call(other.out);
    MhaOracle beside(contract_, of_other);
    Verdict verdict = beside.judge(other.out);
    if (of_base.kind != VerdictKind::fail && verdict.kind != VerdictKind::fail) return verdict;
    const std::string name = layout_in_words(*moved);
    const auto sighting = [&](MhaOracle& of, const Tensor& out, Index b, Index i, Index e) {
      return properties::Sighting{out.at(b, i, e),
                                  of.enclosure(of.judged_way(), b, i, e),
                                  {contract_.attention.policy[Stage::output], format_of(out.dtype()),
                                   contract_.attention.arithmetic.flush_to_zero}};
    };
    for (Index b = 0; b < problem_.b; ++b)
      for (Index i = 0; i < problem_.l; ++i)
        for (Index e = 0; e < problem_.e; ++e) {
          if (base_->out.at(b, i, e) == other.out.at(b, i, e)) continue;
          if (auto evidence = properties::departure(sighting(oracle(), base_->out, b, i, e),
                                                    sighting(beside, other.out, b, i, e), "out", {b, i, e, 0}, name))
            return Verdict::fail(std::move(*evidence), verdict.counts);
        }
    // Both leave the enclosure alike: wrong, but not by this law.
    if (of_base.kind == VerdictKind::fail) return Verdict::pass(of_base.counts);
    if (verdict.evidence) verdict.evidence->note += (verdict.evidence->note.empty() ? "" : "; ") + name;
    return verdict;
  }

  Verdict check_ensemble() {
    if (judgement().kind == VerdictKind::fail) return properties::left_to_the_bound();
    ensemble::Redraws redraws(problem_);
    const auto draw = [&](int n) {
      if (n == 0) return ensemble::mha::sample(problem_, contract_, inputs_, base_->out);
      const auto& [problem, inputs] = redraws(n);
      const Answer answer = call(inputs, {});
      if (answer.call.status != CallStatus::done) throw CallFailed(answer.call);
      return ensemble::mha::sample(problem, contract_, inputs, answer.out);
    };
    return properties::ensemble_verdict(ensemble::ask(draw));
  }

  // Makes a call of its own: a call that asks for stages may go another way, and exact laws compare calls that go the
  // same.
  Verdict check_stages() {
    const StageOutputs stages = stages_to_ask(problem_, contract_, subject_.info());
    Answer result = call(inputs_, stages);
    if (result.call.status != CallStatus::done) throw CallFailed(result.call);
    if (result.violation) return Verdict::fail(std::move(*result.violation));
    const Stopwatch watch(elapsed_.oracle);
    attest::mha::Call judged = inputs_.call(result.out);
    judged.stages = stages.views();
    return MhaOracle(contract_, judged).judge_stages(result.out);
  }

  Verdict check_narrow_stage() {
    const BlockMaker maker(subject_.info().mha.value().supports, problem_.dtype);
    return probing::check_narrow_stage(narrow_questions(maker, contract_), probing::narrow_stage_key(problem_.seed),
                                       contract_, subject_, subject_calls_, elapsed_.subject);
  }

  Verdict check_pair(bool bits) {
    if (peer_ == nullptr || !peer_->info().mha) return Verdict::skip("no second subject");
    peer_base();
    const Answer &a = *base_, &b = *peer_base_;
    if (bits && (a.violation || b.violation)) return Verdict::skip("memory was broken or left unwritten");
    if (a.violation && !b.violation) return properties::broken(*a.violation, true);
    if (b.violation && !a.violation) return properties::broken(*b.violation, false);
    const Stopwatch watch(elapsed_.oracle);
    const Contract its = peer_->info().mha->contract(problem_.dtype, peer_->info().name);
    const attest::mha::Call of_call = inputs_.call(a.out);
    MhaOracle of_a(contract_, of_call), of_b(its, of_call);
    const properties::block::Promised first{a.out, contract_, of_a}, second{b.out, its, of_b};
    Verdict verdict = held_together(first, second);
    if (!bits) return verdict;
    Counts counts;
    auto evidence = first_other_bits(first, second, counts);
    return evidence ? Verdict::fail(std::move(*evidence), counts) : Verdict::pass(counts);
  }

  Verdict check_law(const BlockLaw& law) {
    std::optional<Evidence> violation;
    const BlockTrial trial{contract_, inputs_, base_->out, [&](const Inputs& inputs) {
                             Answer result = call(inputs, {});
                             if (result.call.status != CallStatus::done) throw CallFailed(result.call);
                             if (!violation) violation = std::move(result.violation);
                             return std::move(result.out);
                           }};
    Verdict verdict = law.check(trial);
    return violation ? Verdict::fail(std::move(*violation)) : verdict;
  }

  const Problem problem_;
  const Contract contract_;
  Subject& subject_;
  Subject* const peer_;
  properties::Trial::Nanoseconds elapsed_;
  Inputs inputs_;
  std::optional<Answer> base_, peer_base_;
  attest::mha::Call base_call_;
  std::unique_ptr<MhaOracle> oracle_;
  std::optional<Verdict> judgement_;
  std::int64_t subject_calls_ = 0;
};

}  // namespace

std::vector<Law> laws(const Op& op) {
  using properties::Asks, properties::Claim, properties::Kind;
  std::vector<Law> all{{&op, "guards", "writes(call) = elements of out",
                        "every output element is written, no byte around the outputs is, and no input is modified",
                        Kind::guard, Asks::base_call, Claim::none, guards},
                       {&op, "stage-bound", "q, k, v, heads and out lie in [lo, hi] of docs/mha.md, section 10",
                        "every stage that the block gives is what a block that keeps its contract could have made of "
                        "the stages before; the "
                        "first that is not is named",
                        Kind::bound, Asks::base_plan, Claim::none, stage_bound}};
  for (const BlockLaw& law : properties::block_laws())
    all.push_back({&op, law.name, law.statement, law.doc, law.kind, law.asks, Claim::none, all.size()});
  all.push_back({&op, "policy-bound", "out lies in [lo, hi] of docs/mha.md",
                 "every element is what a block that keeps its contract could have returned", Kind::bound,
                 Asks::base_call, Claim::element, all.size()});
  all.push_back({&op, "block-layout", "|f(x) - f(x')| <= hi - lo, x' = x in another memory layout",
                 "strides, base addresses and shared tokens change nothing beyond rounding", Kind::bound,
                 Asks::anything, Claim::pair, all.size()});
  all.push_back(
      {&op, "ensemble-error",
       "rms (out - y) <= 1.3 times the largest of blocks drawn from the contract; |out - y| <= 3 times, per element",
       "the errors are not larger than those of conforming blocks on the same problem, in each of three draws of its "
       "values: finds what the proven bound, wide where sums are long, permits. A statistic, no proof",
       Kind::statistical, Asks::base_plan, Claim::none, all.size()});
  all.push_back({&op, "compare-bound", "|A(x) - B(x)| <= r_A + r_B",
                 "two subjects, each within its own bound of the exact result, differ by no more than both bounds",
                 Kind::bound, Asks::base_call, Claim::none, all.size()});
  all.push_back({&op, "compare-bits", "A(x) = B(x), bit by bit",
                 "two subjects give the same bits: no contract claims it, and it is asked by name", Kind::exact,
                 Asks::base_call, Claim::none, all.size()});
  all.insert(std::ranges::find(all, Kind::statistical, &Law::kind), probing::narrow_stage_law(&op));
  return all;
}

bool is_stage_bound(const Law& law) { return law.own == stage_bound; }

std::optional<std::string> not_applicable(const Law& law, const Problem& problem, const Contract& contract,
                                          const Supports& supports) {
  if (law.own == stage_bound && !supports.gives_stages()) return "the subject gives no stages";
  if (law.own == narrow_stage)
    return problem.b * problem.l * problem.e > 0 ? std::nullopt : std::optional<std::string>("no output elements");
  if (law.own == block_layout()) {
    if (problem.b * problem.l * problem.e == 0) return "no output elements";
    if (!in_another_layout(problem, supports)) return one_layout;
    return std::nullopt;
  }
  if (law.own == ensemble_error()) {
    const auto refusal = ensemble::mha::refusal(problem, contract);
    return refusal ? std::optional(std::string(*refusal)) : std::nullopt;
  }
  if (law.own < first_law || law.own >= policy_bound()) return std::nullopt;
  return properties::block_laws()[law.own - first_law].not_applicable(problem, contract);
}

std::unique_ptr<Trial> trial(const Problem& problem, const Contract& contract, Subject& subject, Subject* peer) {
  return std::make_unique<MhaTrial>(problem, contract, subject, peer);
}

}  // namespace attest::ops::of_mha
