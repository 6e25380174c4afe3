#include <algorithm>
#include <utility>

#include "core/mha/call.hpp"
#include "core/mha/inputs.hpp"
#include "ops/mha/parts.hpp"
#include "oracle/mha/mha.hpp"
#include "properties/guarded.hpp"
#include "properties/mha/laws.hpp"

namespace attest::ops::of_mha {
namespace {

using attest::mha::Inputs;
using attest::mha::StageOutputs;
using oracle::MhaOracle;
using properties::BlockLaw;
using properties::BlockTrial;
using properties::CallFailed;
using properties::Stopwatch;
using Named = attest::Inputs::Named;

// In the order in which a failing case is reported: what names a stage before what names a symptom.
enum : std::size_t { guards, stage_bound, first_law };
std::size_t policy_bound() { return first_law + properties::block_laws().size(); }

// Wide enough for whatever the contract lets a stage leave.
DType type_of_stages(const Contract& contract) {
  const Format storage = contract.attention.policy[Stage::storage];
  const bool unrounded =
      contract.projections[static_cast<std::size_t>(attest::mha::Projected::unrounded)] || contract.heads_unrounded;
  return unrounded && storage != Format::f64 ? DType::f32 : dtype_of(storage);
}

class MhaTrial final : public Trial {
 public:
  MhaTrial(const Problem& problem, const Contract& contract, Subject& subject)
      : problem_(problem), contract_(contract), subject_(subject) {
    const Stopwatch watch(elapsed_.values);
    inputs_ = materialise(problem_);
  }

  void calibrate_by(const oracle::Calibration&) noexcept override {}
  void announce_statistics() noexcept override {}
  void base() override {
    if (!base_) base_ = call(inputs_, {});
    if (base_->call.status != CallStatus::done) throw CallFailed(base_->call);
  }
  void peer_base() override {}  // no law of this operation asks a peer
  Verdict check(const Law& law) override {
    base();
    if (law.own == guards) return check_guards();
    if (law.own == stage_bound) return check_stages();
    if (law.own == policy_bound()) return check_bound();
    return check_law(properties::block_laws()[law.own - first_law]);
  }
  std::optional<Aggregate> aggregate() override { return std::nullopt; }
  [[nodiscard]] std::int64_t subject_calls() const noexcept override { return subject_calls_; }
  [[nodiscard]] properties::Trial::Nanoseconds elapsed() const noexcept override { return elapsed_; }

 private:
  struct Result {
    Tensor out;
    CallResult call;
    std::optional<Evidence> violation;
  };

  // One call, of stages too where they are given; the subject is not asked what it declines.
  Result call(const Inputs& inputs, const StageOutputs& stages) {
    Result result{make_out(inputs.problem), {}, {}};
    const auto& offer = subject_.info().mha.value();
    if (auto why = declined(inputs.problem, offer.supports, offer.dtypes)) {
      result.call = {CallStatus::unsupported, std::move(*why), 0};
      return result;
    }
    const std::vector<Named> tensors = inputs.named();
    properties::Snapshot before({&tensors, 1});
    attest::mha::Call asked = inputs.call(result.out);
    asked.stages = stages.views();
    {
      const Stopwatch watch(elapsed_.subject);
      result.call = subject_.run_one(as_plugin(asked, inputs.problem.self));
    }
    ++subject_calls_;
    const std::optional<Evidence> modified = before.restore(tensors);
    if (result.call.status != CallStatus::done) return result;
    result.violation = properties::output_violation(result.out, "out");
    for (const auto& [name, stage] :
         {std::pair{"q", &stages.q}, {"k", &stages.k}, {"v", &stages.v}, {"heads", &stages.heads}})
      if (!result.violation && stage->present()) result.violation = properties::output_violation(*stage, name);
    if (!result.violation) result.violation = modified;
    return result;
  }

  Verdict check_guards() const {
    if (base_->violation) return Verdict::fail(*base_->violation);
    return Verdict::pass({.judged = base_->out.size()});
  }

  Verdict check_bound() {
    const Stopwatch watch(elapsed_.oracle);
    const attest::mha::Call call = inputs_.call(base_->out);
    return MhaOracle(contract_, call).judge(base_->out);
  }

  // A call of its own: what is asked for stages may go another way, and exact laws compare calls that go the same.
  Verdict check_stages() {
    const Supports& supports = subject_.info().mha.value().supports;
    StageOutputs stages = make_stages(problem_, type_of_stages(contract_));
    if (!supports.stage_q) stages.q = {};
    if (!supports.stage_k) stages.k = {};
    if (!supports.stage_v) stages.v = {};
    if (!supports.stage_heads) stages.heads = {};
    Result result = call(inputs_, stages);
    if (result.call.status != CallStatus::done) throw CallFailed(result.call);
    if (result.violation) return Verdict::fail(std::move(*result.violation));
    const Stopwatch watch(elapsed_.oracle);
    attest::mha::Call judged = inputs_.call(result.out);
    judged.stages = stages.views();
    return MhaOracle(contract_, judged).judge_stages(result.out);
  }

  Verdict check_law(const BlockLaw& law) {
    std::optional<Evidence> violation;
    const BlockTrial trial{contract_, inputs_, base_->out, [&](const Inputs& inputs) {
                             Result result = call(inputs, {});
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
  properties::Trial::Nanoseconds elapsed_;
  Inputs inputs_;
  std::optional<Result> base_;
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
  return all;
}

std::optional<std::string> not_applicable(const Law& law, const Problem& problem, const Contract& contract,
                                          const Supports& supports) {
  if (law.own == stage_bound && !supports.gives_stages()) return "the subject gives no stages";
  if (law.own < first_law || law.own >= policy_bound()) return std::nullopt;
  return properties::block_laws()[law.own - first_law].not_applicable(problem, contract);
}

std::unique_ptr<Trial> trial(const Problem& problem, const Contract& contract, Subject& subject) {
  return std::make_unique<MhaTrial>(problem, contract, subject);
}

}  // namespace attest::ops::of_mha
