#include <utility>

#include "core/layer_norm/call.hpp"
#include "core/layer_norm/inputs.hpp"
#include "ops/layer_norm/parts.hpp"
#include "oracle/layer_norm/oracle.hpp"
#include "properties/guarded.hpp"
#include "properties/layer_norm/law.hpp"
#include "properties/layer_norm/pair.hpp"
#include "properties/pair.hpp"

namespace attest::ops::of_layer_norm {
namespace {

namespace own = properties::layer_norm;
using attest::layer_norm::Inputs;
using oracle::layer_norm::LayerNormOracle;
using properties::CallFailed;
using properties::Stopwatch;
using Named = attest::Inputs::Named;

enum : std::size_t { guards, policy_bound, first_law };
std::size_t compare_bound() { return first_law + own::laws().size(); }
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

  void calibrate_by(const oracle::Calibration&) noexcept override {}
  void announce_statistics() noexcept override {}
  void base() override {
    if (!base_) base_ = call(subject_, problem_, inputs_);
    if (base_->call.status != CallStatus::done) throw CallFailed(base_->call);
  }
  // Only the laws of two subjects ask a peer.
  void peer_base() override {
    if (!peer_base_) peer_base_ = call(*peer_, problem_, inputs_);
    if (peer_base_->call.status == CallStatus::done) return;
    CallResult failed = peer_base_->call;
    failed.message = properties::peer_prefix + failed.message;
    throw CallFailed(failed);
  }
  Verdict check(const Law& law) override {
    base();
    if (law.own == guards) return check_guards();
    if (law.own == policy_bound) return check_bound();
    if (law.own == compare_bound() || law.own == compare_bits()) return check_pair(law.own == compare_bits());
    return check_law(own::laws()[law.own - first_law]);
  }
  std::optional<Aggregate> aggregate() override { return std::nullopt; }
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
    Result result{make_out(problem), make_sum_out(problem), {}, {}};
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

  Verdict check_bound() {
    const Stopwatch watch(elapsed_.oracle);
    return LayerNormOracle(contract_, problem_, inputs_).judge(base_->out, base_->sum_out);
  }

  Verdict check_pair(bool bits) {
    if (peer_ == nullptr || !peer_->info().layer_norm) return Verdict::skip("no second subject");
    peer_base();
    const Result &a = *base_, &b = *peer_base_;
    if (bits && (a.violation || b.violation)) return Verdict::skip("memory was broken or left unwritten");
    if (a.violation && !b.violation) return broken(*a.violation, true);
    if (b.violation && !a.violation) return broken(*b.violation, false);
    const Stopwatch watch(elapsed_.oracle);
    const Contract its = peer_->info().layer_norm->contract(problem_.dtype, peer_->info().name);
    LayerNormOracle of_a(contract_, problem_, inputs_), of_b(its, problem_, inputs_);
    const own::Promised first{a.out, a.sum_out, contract_, of_a}, second{b.out, b.sum_out, its, of_b};
    if (!bits) return held_together(problem_, first, second);
    Counts counts;
    auto evidence = first_other_bits(first, second, counts);
    return evidence ? Verdict::fail(std::move(*evidence), counts) : Verdict::pass(counts);
  }

  static Verdict broken(Evidence evidence, bool is_a) {
    evidence.note = (is_a ? properties::subject_prefix : properties::peer_prefix) + evidence.note;
    evidence.sides = properties::of_side(is_a, !is_a);
    return Verdict::fail(std::move(evidence));
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
  std::int64_t subject_calls_ = 0;
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
    all.push_back({&op, law.name, law.statement, law.doc, kind_of(law.kind), Asks::anything, Claim::none, all.size()});
  all.push_back({&op, "compare-bound", "|A(x) - B(x)| <= r_A + r_B",
                 "two subjects, each within its own bound of the exact result, differ by no more than both bounds",
                 Kind::bound, Asks::base_call, Claim::none, all.size()});
  all.push_back({&op, "compare-bits", "A(x) = B(x), bit by bit",
                 "two subjects give the same bits: no contract claims it, and it is asked by name", Kind::exact,
                 Asks::base_call, Claim::none, all.size()});
  return all;
}

std::optional<std::string> not_applicable(const Law& law, const Problem& problem, const Contract& contract) {
  if (law.own < first_law) return std::nullopt;
  if (law.own >= compare_bound())
    return problem.elements() > 0 ? std::nullopt : std::optional<std::string>("no output elements");
  return own::laws()[law.own - first_law].not_applicable(problem, contract);
}

std::unique_ptr<Trial> trial(const Problem& problem, const Contract& contract, Subject& subject, Subject* peer) {
  return std::make_unique<LayerNormTrial>(problem, contract, subject, peer);
}

}  // namespace attest::ops::of_layer_norm
