// A call of attention apart from a trial: made of a problem, or saved elsewhere.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/error.hpp"
#include "core/inputs.hpp"
#include "ops/attention/parts.hpp"
#include "ops/attention/saved_call.hpp"
#include "oracle/oracle.hpp"
#include "properties/compare.hpp"
#include "properties/pair.hpp"
#include "properties/trial.hpp"

namespace attest::ops::of_attention {
namespace {

class AttentionExchange final : public Exchange {
 public:
  explicit AttentionExchange(const Problem& problem)
      : problem_(problem),
        own_(problem),
        inputs_(materialise(problem)),
        out_(make_out(problem)),
        lse_(make_lse(problem)) {}
  AttentionExchange(const Problem& problem, Inputs inputs, Tensor out, Tensor lse)
      : problem_(problem), own_(problem), inputs_(std::move(inputs)), out_(std::move(out)), lse_(std::move(lse)) {}

  [[nodiscard]] const ops::Problem& problem() const noexcept override { return problem_; }
  [[nodiscard]] std::vector<NamedTensor> inputs() const override {
    std::vector<NamedTensor> all;
    for (const auto& [name, tensor] : inputs_.named()) all.push_back({name, &tensor});
    return all;
  }
  [[nodiscard]] std::vector<NamedTensor> outputs() const override {
    std::vector<NamedTensor> all{{"out", &out_}};
    if (lse_.present()) all.push_back({"lse", &lse_});
    return all;
  }
  [[nodiscard]] std::vector<std::pair<std::string_view, double>> numbers() const override {
    return {{"scale", inputs_.scale}};
  }
  [[nodiscard]] Call call() const override { return inputs_.call(out_, lse_); }

  [[nodiscard]] Verdict judge(const ops::Contract& contract) override {
    return oracle::make_oracle(contract.as<Contract>(), own_, inputs_)->judge(out_, lse_);
  }
  [[nodiscard]] Permitted element(const ops::Contract& contract, std::string_view output,
                                  const std::array<Index, 4>& at) override {
    const Contract& own = contract.as<Contract>();
    const auto oracle = oracle::make_oracle(own, own_, inputs_);
    if (output == "out")
      return permitted(oracle->out_enclosure(at[0], at[1], at[2], at[3]), properties::out_rounding(own, out_),
                       out_.at(at[0], at[1], at[2], at[3]), "out", at);
    if (output == "lse" && lse_.present())
      return permitted(oracle->lse_enclosure(at[0], at[1], at[2]), properties::lse_rounding(own, lse_),
                       lse_.at(at[0], at[1], at[2]), "lse", at);
    throw internal_error("a call has no output " + std::string(output));
  }
  [[nodiscard]] Walked judged() const override {
    return {static_cast<Index>(judged_rows(own_).size()), own_.b * own_.hq * own_.lq};
  }
  Walked walk(const ops::Contract& contract, Index work, const Visit& visit) override;
  Verdict against(const ops::Contract& saved, Subject& subject, const ops::Contract& its, bool saved_first,
                  bool bits) override;

 private:
  [[nodiscard]] Permitted permitted(const oracle::Enclosure& e, const oracle::Rounding& round, double got,
                                    std::string_view tensor, const std::array<Index, 4>& index) const;

  const ops::Problem problem_;
  const Problem own_;
  const Inputs inputs_;
  const Tensor out_, lse_;
};

Permitted AttentionExchange::permitted(const oracle::Enclosure& e, const oracle::Rounding& round, double got,
                                       std::string_view tensor, const std::array<Index, 4>& index) const {
  Permitted p = permitted_by(e, round, tensor, index);
  put(p, got, oracle::judge_element(e, round, got), e, round);
  return p;
}

Exchange::Walked AttentionExchange::walk(const ops::Contract& contract, Index work, const Visit& visit) {
  const Contract& own = contract.as<Contract>();
  const auto oracle = oracle::make_oracle(own, own_, inputs_);
  Problem sample = own_;
  const Index row_work = std::max<Index>((own_.dv + 1) * std::max<Index>(own_.lk, 1), 1);
  sample.rows = std::min(judged().rows, std::max<Index>(work / row_work, 64));
  const std::vector<Index> rows = judged_rows(sample);
  for (const Index row : rows) {
    const auto [b, h, i] = row_index(own_, row);
    for (Index c = 0; c < own_.dv; ++c)
      visit(permitted(oracle->out_enclosure(b, h, i, c), properties::out_rounding(own, out_), out_.at(b, h, i, c),
                      "out", {b, h, i, c}));
    if (lse_.present())
      visit(permitted(oracle->lse_enclosure(b, h, i), properties::lse_rounding(own, lse_), lse_.at(b, h, i), "lse",
                      {b, h, i, 0}));
  }
  return {static_cast<Index>(rows.size()), judged().all_rows};
}

Verdict AttentionExchange::against(const ops::Contract& saved_contract, Subject& subject,
                                   const ops::Contract& its_contract, bool saved_first, bool bits) {
  using properties::Promised;
  const Contract &of_saved = saved_contract.as<Contract>(), &its = its_contract.as<Contract>();
  static const Tensor absent;
  const Tensor& lse = subject.info().supports.lse ? lse_ : absent;
  Problem problem = own_;
  if (lse.present()) problem.lse = lse.dtype() == DType::f64 ? LseOutput::f64 : LseOutput::f32;
  properties::Trial trial(problem, inputs_.clone(), its, subject);
  const properties::Result& result = trial.base();
  if (result.violation) return properties::broken(*result.violation, !saved_first);
  const auto oracle = oracle::make_oracle(of_saved, problem, inputs_);
  const Promised saved{out_, lse, of_saved, *oracle};
  const Promised now{result.out, result.lse, its, trial.oracle()};
  const Promised &a = saved_first ? saved : now, &b = saved_first ? now : saved;
  Verdict verdict = properties::held_together(problem, a, b);
  // Bits are not compared where the saved output has another type.
  if (!bits || is_finding(verdict.kind) || out_.dtype() != result.out.dtype()) return verdict;
  const properties::Result here{out_.clone(), lse.present() ? lse.clone() : Tensor(), {}, {}};
  const properties::Result &first = saved_first ? here : result, &second = saved_first ? result : here;
  Counts counts;
  auto differs = properties::difference(second, first, properties::Equality::bits, "not bitwise equal", counts);
  if (!differs) return verdict;
  differs->sides = properties::sides_of(differs->tensor == "lse" ? "lse" : "out", differs->index, a, b);
  return Verdict::fail(std::move(*differs), verdict.counts);
}

}  // namespace

std::unique_ptr<Exchange> exchange(const Problem& problem) { return std::make_unique<AttentionExchange>(problem); }

SavedCall saved_call(const std::vector<NamedArray>& inputs, const std::vector<NamedArray>& outputs,
                     const SavedCallOptions& options) {
  SavedTensors saved = saved_tensors(inputs, outputs, options);
  return {std::make_unique<AttentionExchange>(saved.problem, std::move(saved.inputs), std::move(saved.out),
                                              std::move(saved.lse)),
          std::move(saved.notes)};
}

const Tensor* input_of(const Exchange& exchange, std::string_view name) {
  for (const NamedTensor& each : exchange.inputs())
    if (each.name == name) return each.tensor;
  return nullptr;
}

std::string options_in_words(const Exchange& exchange) {
  const Problem& p = exchange.problem().as<Problem>();
  std::string text = fmt::format("scale {}{}", p.effective_scale(), p.scale ? "" : " (1/sqrt(d))");
  if (p.softcap != 0) text += fmt::format(", softcap {}", p.softcap);
  const bool diagonal = p.causal || p.window_left >= 0 || p.window_right >= 0;
  if (p.causal) text += ", causal";
  if (p.window_left >= 0) text += fmt::format(", window_left {}", p.window_left);
  if (p.window_right >= 0) text += fmt::format(", window_right {}", p.window_right);
  if (diagonal) text += p.align == Align::top_left ? " (top_left)" : " (bottom_right)";
  for (const auto& [name, tensor] : exchange.inputs())
    if (name != "q" && name != "k" && name != "v") text += fmt::format(", {}", name);
  return text;
}

}  // namespace attest::ops::of_attention
