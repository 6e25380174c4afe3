#include <algorithm>
#include <utility>

#include "core/layer_norm/call.hpp"
#include "core/layer_norm/inputs.hpp"
#include "ensemble/layer_norm.hpp"
#include "ensemble/redraws.hpp"
#include "ops/layer_norm/parts.hpp"
#include "ops/layer_norm/probe/parts.hpp"
#include "oracle/layer_norm/oracle.hpp"
#include "properties/ensemble.hpp"
#include "properties/guarded.hpp"
#include "properties/layer_norm/law.hpp"
#include "properties/layer_norm/pair.hpp"
#include "properties/pair.hpp"

namespace attest::ops::of_layer_norm {
namespace {

namespace own = properties::layer_norm;
using attest::layer_norm::Inputs;
using attest::layer_norm::Stage;
using oracle::layer_norm::LayerNormOracle;
using probing::narrow_stage;
using properties::CallFailed;
using properties::Stopwatch;
using Named = attest::Inputs::Named;

enum : std::size_t { guards, policy_bound, first_law };
std::size_t ensemble_error() { return first_law + own::laws().size(); }
std::size_t compare_bound() { return ensemble_error() + 1; }
std::size_t compare_bits() { return compare_bound() + 1; }

std::vector<Named> named(const Inputs& inputs) {
  std::vector<Named> all;
  for (const auto& [name, tensor] :
       {std::pair{"x", &inputs.x}, {"residual", &inputs.residual}, {"gamma", &inputs.gamma}, {"beta", &inputs.beta}})
    if (tensor->present()) all.push_back({name, *tensor});
  return all;
}

class LayerNormTrial final : public Trial {
 public:
  LayerNormTrial(const Problem& problem, const Contract& contract, Subject& subject, Subject* peer)
      : problem_(problem), contract_(contract), subject_(subject), peer_(peer) {
    const Stopwatch watch(elapsed_.values);
    inputs_ = materialise(problem_);
  }

  void base() override {
    if (!base_) base_ = call(subject_, problem_, inputs_);
    if (base_->call.status != CallStatus::done) throw CallFailed(base_->call);
  }
  // Only the laws of two subjects ask a peer.
  void peer_base() override {
    if (!peer_base_) peer_base_ = call(*peer_, problem_, inputs_);
    if (peer_base_->call.status != CallStatus::done) throw properties::failed_peer(peer_base_->call);
  }
  Verdict check(const Law& law) override {
    base();
    if (law.own == narrow_stage) return check_narrow_stage();
    if (law.own == guards) return check_guards();
    if (law.own == policy_bound) return judgement();
    if (law.own == ensemble_error()) return check_ensemble();
    if (law.own == compare_bound() || law.own == compare_bits()) return check_pair(law.own == compare_bits());
    return check_law(own::laws()[law.own - first_law]);
  }
  [[nodiscard]] std::int64_t subject_calls() const noexcept override { return subject_calls_; }
  [[nodiscard]] properties::Trial::Nanoseconds elapsed() const noexcept override { return elapsed_; }

 private:
  struct Result {
    Tensor out, sum_out;
    CallResult call;
    std::optional<Evidence> violation;
  };

  // One call; the subject is not asked what it declines.
  Result call(Subject& subject, const Problem& problem, const Inputs& inputs) {
    const std::int64_t number = calls_made_++;
    Result result{make_out(problem, properties::fence_of(problem_.seed, number, 0)),
                  make_sum_out(problem, properties::fence_of(problem_.seed, number, 1)),
                  {},
                  {}};
    const SubjectInfo& info = subject.info();
    const auto& offer = info.layer_norm.value();
    if (auto why = declined(problem, offer.supports, offer.dtypes)) {
      result.call = {CallStatus::unsupported, std::move(*why), 0};
      return result;
    }
    const std::vector<Named> tensors = named(inputs);
    properties::Snapshot before({&tensors, 1});
    {
      const Stopwatch watch(elapsed_.subject);
      result.call = subject.run_one(inputs.call(result.out, result.sum_out));
    }
    subject_calls_ += &subject == &subject_;
    const std::optional<Evidence> modified = before.restore(tensors);
    if (result.call.status != CallStatus::done) return result;
    result.violation = properties::output_violation(result.out, "out");
    if (!result.violation) result.violation = properties::output_violation(result.sum_out, "sum_out");
    if (!result.violation) result.violation = modified;
    return result;
  }

  Verdict check_guards() const {
    if (base_->violation) return Verdict::fail(*base_->violation);
    return Verdict::pass({.judged = base_->out.size() + base_->sum_out.size()});
  }

  // The proven bound's, made once.
  const Verdict& judgement() {
    if (!judgement_) {
      const Stopwatch watch(elapsed_.oracle);
      judgement_ = LayerNormOracle(contract_, problem_, inputs_).judge(base_->out, base_->sum_out);
    }
    return *judgement_;
  }

  Verdict check_ensemble() {
    if (judgement().kind == VerdictKind::fail) return properties::left_to_the_bound();
    ensemble::Redraws redraws(problem_);
    const auto draw = [&](int n) {
      if (n == 0) return ensemble::layer_norm::sample(problem_, contract_, inputs_, base_->out);
      const auto& [problem, inputs] = redraws(n);
      const Result result = call(subject_, problem, inputs);
      if (result.call.status != CallStatus::done) throw CallFailed(result.call);
      return ensemble::layer_norm::sample(problem, contract_, inputs, result.out);
    };
    return properties::ensemble_verdict(ensemble::ask(draw));
  }

  Verdict check_narrow_stage() {
    const auto& supports = subject_.info().layer_norm.value().supports;
    const std::uint64_t key = probing::narrow_stage_key(problem_.seed);
    const Problem drawn = probing::at_usual_sizes(key) ? at_usual_sizes(problem_, supports, key) : problem_;
    const Maker maker(supports, drawn, contract_.gamma_offset);
    return probing::check_narrow_stage(narrow_questions(maker, contract_, key), key, contract_, subject_,
                                       subject_calls_, elapsed_.subject);
  }

  Verdict check_pair(bool bits) {
    if (peer_ == nullptr || !peer_->info().layer_norm) return Verdict::skip("no second subject");
    peer_base();
    const Result &a = *base_, &b = *peer_base_;
    if (bits && (a.violation || b.violation)) return Verdict::skip("memory was broken or left unwritten");
    if (a.violation && !b.violation) return properties::broken(*a.violation, true);
    if (b.violation && !a.violation) return properties::broken(*b.violation, false);
    const Stopwatch watch(elapsed_.oracle);
    const Contract its = peer_->info().layer_norm->contract(problem_.dtype, peer_->info().name);
    LayerNormOracle of_a(contract_, problem_, inputs_), of_b(its, problem_, inputs_);
    const own::Promised first{a.out, a.sum_out, contract_, of_a}, second{b.out, b.sum_out, its, of_b};
    if (!bits) return held_together(problem_, first, second);
    Counts counts;
    auto evidence = first_other_bits(first, second, counts);
    return evidence ? Verdict::fail(std::move(*evidence), counts) : Verdict::pass(counts);
  }

  Verdict check_law(const own::Law& law) {
    std::optional<Evidence> violation;
    const own::Ask ask = [&](const Problem& problem, const Inputs& inputs) {
      Result result = call(subject_, problem, inputs);
      if (result.call.status != CallStatus::done) throw CallFailed(result.call);
      if (!violation) violation = std::move(result.violation);
      return std::move(result.out);
    };
    Verdict verdict = law.check({contract_, problem_, inputs_, base_->out, ask});
    return violation ? Verdict::fail(std::move(*violation)) : verdict;
  }

  const Problem problem_;
  const Contract contract_;
  Subject& subject_;
  Subject* const peer_;
  properties::Trial::Nanoseconds elapsed_;
  Inputs inputs_;
  std::optional<Result> base_, peer_base_;
  std::optional<Verdict> judgement_;
  std::int64_t subject_calls_ = 0, calls_made_ = 0;  // the latter of both
};

properties::Kind kind_of(own::Kind kind) {
  return kind == own::Kind::exact ? properties::Kind::exact : properties::Kind::bound;
}

}  // namespace

std::vector<Law> laws(const Op& op) {
  using properties::Asks, properties::Claim, properties::Kind;
  std::vector<Law> all{
      {&op, "guards", "writes(call) = elements of out and sum_out",
       "every output element is written, no byte around the outputs is, and no input is modified", Kind::guard,
       Asks::base_call, Claim::none, guards},
      {&op, "policy-bound", "out and sum_out lie in [lo, hi] of docs/layer-norm.md",
       "every judged element is what a kernel that keeps its contract could have returned", Kind::bound,
       Asks::base_call, Claim::element, policy_bound},
  };
  for (const own::Law& law : own::laws())
    all.push_back({&op, law.name, law.statement, law.doc, kind_of(law.kind),
                   law.asks_again ? Asks::anything : Asks::base_call, Claim::none, all.size()});
  all.push_back(
      {&op, "ensemble-error",
       "rms (out - y) <= 1.3 times the largest of kernels drawn from the contract; |out - y| <= 3 times, per element",
       "the errors are not larger than those of conforming kernels on the same problem, in each of three draws of its "
       "values: finds what the proven bound, wide on long rows, permits. A statistic, no proof",
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

std::optional<std::string> not_applicable(const Law& law, const Problem& problem, const Contract& contract) {
  if (law.own < first_law) return std::nullopt;
  if (law.own == ensemble_error()) {
    const auto refusal = ensemble::layer_norm::refusal(problem, contract);
    return refusal ? std::optional(std::string(*refusal)) : std::nullopt;
  }
  if (law.own == narrow_stage)
    return problem.elements() > 0 ? std::nullopt : std::optional<std::string>("no output elements");
  if (law.own >= compare_bound())
    return problem.elements() > 0 ? std::nullopt : std::optional<std::string>("no output elements");
  return own::laws()[law.own - first_law].not_applicable(problem, contract);
}

std::unique_ptr<Trial> trial(const Problem& problem, const Contract& contract, Subject& subject, Subject* peer) {
  return std::make_unique<LayerNormTrial>(problem, contract, subject, peer);
}

}  // namespace attest::ops::of_layer_norm
