// A call of mha apart from a trial: made of a problem, or saved elsewhere.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "core/error.hpp"
#include "core/mha/call.hpp"
#include "ops/mha/parts.hpp"
#include "oracle/mha/mha.hpp"
#include "properties/compare.hpp"
#include "properties/mha/pair.hpp"
#include "properties/pair.hpp"
#include "properties/trial.hpp"

namespace attest::ops::of_mha {
namespace {

using attest::mha::Inputs;
using attest::mha::StageOutputs;
using oracle::BlockStage;
using oracle::BlockStages;
using oracle::MhaOracle;

// A view of one buffer as a tensor of its own.
Tensor alone(const attest_tensor& view) {
  if (!attest_present(&view)) return {};
  Tensor copy(*dtype_of(view.dtype), std::span(view.shape, view.ndim));
  for (Index i = 0; i < view.shape[0]; ++i)
    for (Index c = 0; c < (view.ndim > 1 ? view.shape[1] : 1); ++c)
      copy.set(i, c, 0, 0, attest_load(&view, i, c, 0, 0));
  return copy;
}

// `count` of so many, spread evenly.
std::vector<Index> spread_over(Index all, Index count) {
  std::vector<Index> some;
  for (Index n = 0; n < count; ++n) some.push_back(n * all / count);
  return some;
}

// Adds the values that another permitted way of the block may return.
void join(Permitted& p, const Permitted& other) {
  p.lo = std::min(p.lo, other.lo);
  p.hi = std::max(p.hi, other.hi);
  p.number = p.number || other.number;
  p.nonfinite = p.nonfinite || other.nonfinite;
  p.undetermined = p.undetermined || other.undetermined;
  p.wide = p.wide || other.wide;
}

class MhaExchange final : public Exchange {
 public:
  explicit MhaExchange(const Problem& problem) : MhaExchange(materialise(problem), make_out(problem), {}) {}
  MhaExchange(Inputs inputs, Tensor out, StageOutputs stages, Index rows = 0)
      : problem_(inputs.problem),
        own_(inputs.problem),
        rows_(rows),
        inputs_(std::move(inputs)),
        out_(std::move(out)),
        stages_(std::move(stages)) {
    if (!own_.packed) return;
    const attest::mha::Call call = inputs_.call(out_);
    parts_ = {alone(call.w_q), alone(call.w_k), alone(call.w_v), alone(call.b_q), alone(call.b_k), alone(call.b_v)};
  }

  [[nodiscard]] const ops::Problem& problem() const noexcept override { return problem_; }
  // w_q, w_k and w_v each for itself, also where one buffer holds them.
  [[nodiscard]] std::vector<NamedTensor> inputs() const override {
    const Inputs& in = inputs_;
    const auto part = [&](std::size_t n, const Tensor& whole) { return own_.packed ? &parts_[n] : &whole; };
    return present({{"x", &in.x},
                    {"memory", &in.memory},
                    {"w_q", part(0, in.w_q)},
                    {"w_k", part(1, in.w_k)},
                    {"w_v", part(2, in.w_v)},
                    {"w_out", &in.w_out},
                    {"b_q", part(3, in.b_q)},
                    {"b_k", part(4, in.b_k)},
                    {"b_v", part(5, in.b_v)},
                    {"b_out", &in.b_out},
                    {"bias", &in.bias},
                    {"keep", &in.keep},
                    {"kv_lengths", &in.kv_lengths}});
  }
  [[nodiscard]] std::vector<NamedTensor> outputs() const override {
    return present(
        {{"out", &out_}, {"q", &stages_.q}, {"k", &stages_.k}, {"v", &stages_.v}, {"heads", &stages_.heads}});
  }
  [[nodiscard]] std::vector<std::pair<std::string_view, double>> numbers() const override {
    return {{"scale", own_.effective_scale()}};
  }
  [[nodiscard]] Call call() const override { return as_plugin(own_call(), own_.self); }
  bool ask_for(const Law& law, const ops::Contract& contract, const SubjectInfo& info) override {
    if (!is_stage_bound(law) || !info.mha.value().supports.gives_stages()) return false;
    stages_ = stages_to_ask(own_, contract.as<Contract>(), info);
    return true;
  }

  // Judges stages, too, where there are any: each given those before it, and out by itself as well.
  [[nodiscard]] Verdict judge(const ops::Contract& contract) override {
    const attest::mha::Call call = own_call();
    MhaOracle oracle(contract.as<Contract>(), call, rows_);
    if (!has_stages()) return oracle.judge(out_);
    Verdict of_stages = oracle.judge_stages(out_);
    if (of_stages.kind == VerdictKind::fail) return of_stages;
    Verdict whole = oracle.judge(out_);
    return whole.kind == VerdictKind::fail ? whole : of_stages;
  }
  [[nodiscard]] Permitted element(const ops::Contract& contract, std::string_view output,
                                  const std::array<Index, 4>& at) override {
    for (const auto& [name, tensor] : outputs())
      if (name == output) return Seen(*this, contract.as<Contract>()).element(name, *tensor, at);
    throw internal_error("a call has no output " + std::string(output));
  }
  [[nodiscard]] Walked judged() const override {
    const Index all = own_.b * own_.l;
    return {rows_ > 0 ? std::min(rows_, all) : all, all};
  }
  Walked walk(const ops::Contract& contract, Index work, const Visit& visit) override;
  void walk_stages(const ops::Contract& contract, Index work, const Visit& visit) override;
  Verdict against(const ops::Contract& saved, Subject& subject, const ops::Contract& its, bool saved_first,
                  bool bits) override;

 private:
  // The call with its outputs, as one contract has it.
  class Seen {
   public:
    Seen(const MhaExchange& exchange, const Contract& contract)
        : own_(exchange.own_),
          contract_(contract),
          call_(exchange.own_call()),
          oracle_(contract_, call_, exchange.rows_) {
      if (exchange.has_stages()) {
        if (oracle_.ways() > 1) (void)oracle_.judge_stages(exchange.out_);
        stages_ = oracle_.stages(oracle_.judged_way());
      }
      if (oracle_.ways() > 1) (void)oracle_.judge(exchange.out_);
    }
    [[nodiscard]] Permitted element(std::string_view name, const Tensor& tensor, const std::array<Index, 4>& at);

   private:
    [[nodiscard]] Permitted stage(BlockStage stage, const Tensor& tensor, const std::array<Index, 4>& at) const;
    // The enclosures of a row's elements, computed in this way.
    const std::vector<oracle::Enclosure>& row(std::size_t way, Index b, Index i);

    const Problem& own_;
    const Contract& contract_;
    const attest::mha::Call call_;
    MhaOracle oracle_;
    std::unique_ptr<BlockStages> stages_;
    std::vector<std::vector<oracle::Enclosure>> rows_;
    Index row_b_ = -1, row_i_ = -1;
  };

  static std::vector<NamedTensor> present(std::vector<NamedTensor> tensors) {
    std::erase_if(tensors, [](const NamedTensor& each) { return !each.tensor->present(); });
    return tensors;
  }
  [[nodiscard]] bool has_stages() const {
    return stages_.q.present() || stages_.k.present() || stages_.v.present() || stages_.heads.present();
  }
  [[nodiscard]] attest::mha::Call own_call() const {
    attest::mha::Call call = inputs_.call(out_);
    call.stages = stages_.views();
    return call;
  }
  // The number of rows that may be looked at: the whole formulas cost several times as much as the block.
  [[nodiscard]] Index rows_for(Index work) const {
    const Index rows = own_.b * own_.l;
    return std::min(judged().rows, std::max<Index>(work / 8 / std::max<Index>(own_.multiply_adds() / rows, 1), 64));
  }

  const ops::Problem problem_;
  const Problem own_;
  const Index rows_;  // the rows judged; 0: all
  const Inputs inputs_;
  const Tensor out_;
  StageOutputs stages_;
  std::array<Tensor, 6> parts_;  // the parts of a packed buffer
};

const std::vector<oracle::Enclosure>& MhaExchange::Seen::row(std::size_t way, Index b, Index i) {
  if (b != row_b_ || i != row_i_) {
    rows_.assign(oracle_.ways(), {});
    for (std::size_t n = 0; n < rows_.size(); ++n)
      for (Index e = 0; e < own_.e; ++e) rows_[n].push_back(oracle_.enclosure(n, b, i, e));
    row_b_ = b;
    row_i_ = i;
  }
  return rows_[way];
}

Permitted MhaExchange::Seen::stage(BlockStage stage, const Tensor& tensor, const std::array<Index, 4>& at) const {
  const oracle::Enclosure enclosure = stages_->enclosure(stage, at);
  const oracle::Rounding round = stages_->rounding(stage, tensor.dtype());
  Permitted p = permitted_by(enclosure, round, name(stage), at);
  const double got = tensor.at(at[0], at[1], at[2], at[3]);
  put(p, got, judge_element(enclosure, round, got), enclosure, round);
  return p;
}

Permitted MhaExchange::Seen::element(std::string_view tensor_name, const Tensor& tensor,
                                     const std::array<Index, 4>& at) {
  for (const BlockStage stage_of : oracle::block_stages)
    if (name(stage_of) == tensor_name && stages_ != nullptr) {
      Permitted p = stage(stage_of, tensor, at);
      if (stage_of != BlockStage::out || p.outcome == oracle::Outcome::outside) return p;
    }
  const auto [b, i, e, unused] = at;
  const oracle::Rounding round{contract_.attention.policy[Stage::output], format_of(tensor.dtype()),
                               contract_.attention.arithmetic.flush_to_zero};
  const std::size_t judged = oracle_.judged_way();
  const oracle::Enclosure& enclosure = row(judged, b, i)[static_cast<std::size_t>(e)];
  Permitted p = permitted_by(enclosure, round, "out", at);
  const double got = tensor.at(b, i, e);
  put(p, got, judge_element(enclosure, round, got), enclosure, round);
  for (std::size_t way = 0; way < oracle_.ways(); ++way)
    if (way != judged) join(p, permitted_by(row(way, b, i)[static_cast<std::size_t>(e)], round, "out", at));
  return p;
}

Exchange::Walked MhaExchange::walk(const ops::Contract& contract, Index work, const Visit& visit) {
  Seen seen(*this, contract.as<Contract>());
  const Index rows = own_.b * own_.l, judged = rows_for(work), of_memory = own_.b * own_.m;
  const auto visit_heads = [&](std::string_view name, const Tensor& tensor, Index row, Index tokens) {
    if (!tensor.present()) return;
    for (Index h = 0; h < tensor.shape()[1]; ++h)
      for (Index c = 0; c < own_.head_dim; ++c) visit(seen.element(name, tensor, {row / tokens, h, row % tokens, c}));
  };
  for (const Index row : spread_over(of_memory, std::max<Index>(judged * of_memory / rows, 1))) {
    visit_heads("k", stages_.k, row, own_.m);
    visit_heads("v", stages_.v, row, own_.m);
  }
  const std::vector<Index> of_judged = spread_over(rows, this->judged().rows);
  for (const Index n : spread_over(this->judged().rows, judged)) {
    const Index row = of_judged[static_cast<std::size_t>(n)], b = row / own_.l, i = row % own_.l;
    visit_heads("q", stages_.q, row, own_.l);
    for (Index c = 0; stages_.heads.present() && c < own_.q_width(); ++c)
      visit(seen.element("heads", stages_.heads, {b, i, c, 0}));
    for (Index e = 0; e < own_.e; ++e) visit(seen.element("out", out_, {b, i, e, 0}));
  }
  return {judged, rows};
}

void MhaExchange::walk_stages(const ops::Contract& contract, Index work, const Visit& visit) {
  const Contract& own = contract.as<Contract>();
  attest::mha::Call call = own_call();
  call.stages = {};
  MhaOracle oracle(own, call);
  std::vector<std::unique_ptr<BlockStages>> ways;
  for (std::size_t n = 0; n < oracle.ways(); ++n) ways.push_back(oracle.stages(n));
  const Index most = rows_for(work), of_x = own_.b * own_.l, of_memory = own_.b * own_.m;
  for (const BlockStage stage : {BlockStage::q, BlockStage::k, BlockStage::v, BlockStage::heads}) {
    const bool of_heads = stage == BlockStage::heads, memory = stage == BlockStage::k || stage == BlockStage::v;
    const Index tokens = memory ? own_.m : own_.l, all = memory ? of_memory : of_x;
    const Index width = memory ? own_.kv_width() : own_.q_width(), d = own_.head_dim;
    for (const Index row : spread_over(all, std::max<Index>(most * all / of_x, 1)))
      // Way by way, since each has what a row shares.
      for (std::vector<Permitted> found; const auto& way : ways) {
        for (Index c = 0; c < width; ++c) {
          const std::array<Index, 4> at = of_heads ? std::array<Index, 4>{row / tokens, row % tokens, c, 0}
                                                   : std::array<Index, 4>{row / tokens, c / d, row % tokens, c % d};
          const Format left = way->rounding(stage, DType::f64).stage;
          const Permitted p =
              permitted_by(way->enclosure(stage, at), way->rounding(stage, dtype_of(left)), name(stage), at);
          if (way == ways.front())
            found.push_back(p);
          else
            join(found[static_cast<std::size_t>(c)], p);
        }
        if (way == ways.back()) std::ranges::for_each(found, visit);
      }
  }
}

Verdict MhaExchange::against(const ops::Contract& saved_contract, Subject& subject, const ops::Contract& its_contract,
                             bool saved_first, bool bits) {
  using properties::block::Promised;
  const Contract &of_saved = saved_contract.as<Contract>(), &its = its_contract.as<Contract>();
  std::int64_t calls = 0, elapsed = 0;
  const Answer answer = asked(subject, inputs_, {}, calls, elapsed);
  if (answer.call.status != CallStatus::done) throw properties::CallFailed(answer.call);
  if (answer.violation) return properties::broken(*answer.violation, !saved_first);
  const attest::mha::Call call = inputs_.call(out_);
  MhaOracle oracle_of_saved(of_saved, call), oracle_of_subject(its, call);
  const Promised saved{out_, of_saved, oracle_of_saved}, now{answer.out, its, oracle_of_subject};
  const Promised &a = saved_first ? saved : now, &b = saved_first ? now : saved;
  Verdict verdict = held_together(a, b);
  // Bits are not compared where the saved output has another type.
  if (!bits || is_finding(verdict.kind) || out_.dtype() != answer.out.dtype()) return verdict;
  Counts counts;
  auto differs = first_other_bits(a, b, counts);
  return differs ? Verdict::fail(std::move(*differs), verdict.counts) : verdict;
}

}  // namespace

std::unique_ptr<Exchange> exchange(const Problem& problem) { return std::make_unique<MhaExchange>(problem); }
std::unique_ptr<Exchange> exchange(Inputs inputs, Tensor out, StageOutputs stages, Index rows) {
  return std::make_unique<MhaExchange>(std::move(inputs), std::move(out), std::move(stages), rows);
}

std::string options_in_words(const Exchange& exchange) {
  const Problem& p = exchange.problem().as<Problem>();
  std::string text = fmt::format("{}, scale {}{}", p.self ? "self-attention" : "cross-attention", p.effective_scale(),
                                 p.scale ? "" : " (1/sqrt(head_dim))");
  if (p.causal) text += p.align == Align::top_left ? ", causal (top_left)" : ", causal (bottom_right)";
  constexpr std::string_view always[] = {"x", "memory", "w_q", "w_k", "w_v", "w_out"};
  for (const auto& [name, tensor] : exchange.inputs())
    if (std::ranges::find(always, name) == std::end(always)) text += fmt::format(", {}", name);
  return text;
}

}  // namespace attest::ops::of_mha
