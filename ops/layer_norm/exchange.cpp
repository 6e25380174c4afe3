// A call of layer_norm apart from a trial: made of a problem, or saved elsewhere.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/error.hpp"
#include "core/layer_norm/call.hpp"
#include "core/layer_norm/inputs.hpp"
#include "ops/layer_norm/parts.hpp"
#include "oracle/layer_norm/oracle.hpp"

namespace attest::ops::of_layer_norm {
namespace {

using attest::layer_norm::Inputs;
using attest::layer_norm::Norm;
using attest::layer_norm::Stage;
using oracle::layer_norm::LayerNormOracle;

class LayerNormExchange final : public Exchange {
 public:
  explicit LayerNormExchange(const Problem& problem)
      : problem_(problem),
        own_(problem),
        inputs_(materialise(problem)),
        out_(make_out(problem)),
        sum_out_(make_sum_out(problem)) {}
  LayerNormExchange(const Problem& problem, Inputs inputs, Tensor out, Tensor sum_out)
      : problem_(problem),
        own_(problem),
        inputs_(std::move(inputs)),
        out_(std::move(out)),
        sum_out_(std::move(sum_out)) {}

  [[nodiscard]] const ops::Problem& problem() const noexcept override { return problem_; }
  [[nodiscard]] std::vector<NamedTensor> inputs() const override {
    return present(
        {{"x", &inputs_.x}, {"residual", &inputs_.residual}, {"gamma", &inputs_.gamma}, {"beta", &inputs_.beta}});
  }
  [[nodiscard]] std::vector<NamedTensor> outputs() const override {
    return present({{"out", &out_}, {"sum_out", &sum_out_}});
  }
  [[nodiscard]] std::vector<std::pair<std::string_view, double>> numbers() const override {
    return {{"epsilon", inputs_.epsilon}};
  }
  [[nodiscard]] Call call() const override { return inputs_.call(out_, sum_out_); }

  [[nodiscard]] Verdict judge(const ops::Contract& contract) override {
    return LayerNormOracle(contract.as<Contract>(), own_, inputs_).judge(out_, sum_out_);
  }
  [[nodiscard]] Permitted element(const ops::Contract& contract, std::string_view output,
                                  const std::array<Index, 4>& at) override {
    const Contract& own = contract.as<Contract>();
    LayerNormOracle oracle(own, own_, inputs_);
    if (output == "out") return out_element(oracle, own, at[0], at[1]);
    if (output == "sum_out" && sum_out_.present()) return sum_element(oracle, at[0], at[1]);
    throw internal_error("a call has no output " + std::string(output));
  }
  [[nodiscard]] Walked judged() const override { return {static_cast<Index>(judged_rows(own_).size()), own_.rows}; }
  Walked walk(const ops::Contract& contract, Index work, const Visit& visit) override;
  Verdict against(const ops::Contract&, Subject&, const ops::Contract&, bool, bool) override {
    throw usage_error(
        "saved calls of layer_norm are not compared with a subject in this version: attest judge takes them");
  }

 private:
  static std::vector<NamedTensor> present(std::vector<NamedTensor> tensors) {
    std::erase_if(tensors, [](const NamedTensor& each) { return !each.tensor->present(); });
    return tensors;
  }
  [[nodiscard]] Permitted out_element(LayerNormOracle& oracle, const Contract& contract, Index row, Index column) const;
  [[nodiscard]] Permitted sum_element(LayerNormOracle& oracle, Index row, Index column) const;

  const ops::Problem problem_;
  const Problem own_;
  const Inputs inputs_;
  const Tensor out_, sum_out_;
};

Permitted LayerNormExchange::out_element(LayerNormOracle& oracle, const Contract& contract, Index row,
                                         Index column) const {
  const oracle::layer_norm::Interval interval = oracle.interval(row, column);
  const oracle::Enclosure& e = interval.enclosure;
  const oracle::Rounding round{contract.policy[Stage::output], format_of(inputs_.x.dtype()),
                               contract.arithmetic.flushes()};
  const double got = out_.at(row, column);
  std::vector<double> beta;  // all that may be left
  if (interval.beta_ok) beta = {round(round_to(interval.affine, interval.beta)), round(interval.beta)};
  if (interval.beta_ok && interval.beta_may_flush) beta.push_back(0);
  Permitted p = permitted_by(e, round, "out", {row, column, 0, 0}, beta);
  put(p, got, oracle.outcome(interval, got), e, round);
  return p;
}

Permitted LayerNormExchange::sum_element(LayerNormOracle& oracle, Index row, Index column) const {
  const double got = sum_out_.at(row, column);
  const std::vector<double> permitted = oracle.sums(row, column);
  Permitted p;
  p.tensor = "sum_out";
  p.index = {row, column, 0, 0};
  p.y = permitted.front();
  p.number = !std::isnan(p.y);
  p.nonfinite = !std::isfinite(p.y);
  std::tie(p.lo, p.hi) = std::pair{*std::ranges::min_element(permitted), *std::ranges::max_element(permitted)};
  const auto is_got = [&](double s) { return s == got || (std::isnan(s) && std::isnan(got)); };
  p.outcome = std::ranges::any_of(permitted, is_got) ? oracle::Outcome::inside : oracle::Outcome::outside;
  if (p.outcome == oracle::Outcome::outside) p.evidence = oracle::layer_norm::sum_evidence(p.index, got, p.y);
  return p;
}

Exchange::Walked LayerNormExchange::walk(const ops::Contract& contract, Index work, const Visit& visit) {
  const Contract& own = contract.as<Contract>();
  LayerNormOracle oracle(own, own_, inputs_);
  Problem sample = own_;
  sample.judged = std::min(judged().rows, std::max<Index>(work / std::max<Index>(own_.hidden, 1), 64));
  const std::vector<Index> rows = judged_rows(sample);
  for (const Index row : rows) {
    for (Index column = 0; column < own_.hidden; ++column) visit(out_element(oracle, own, row, column));
    if (!sum_out_.present()) continue;
    for (Index column = 0; column < own_.hidden; ++column) visit(sum_element(oracle, row, column));
  }
  return {static_cast<Index>(rows.size()), own_.rows};
}

}  // namespace

std::unique_ptr<Exchange> exchange(const Problem& problem) { return std::make_unique<LayerNormExchange>(problem); }
std::unique_ptr<Exchange> exchange(const Problem& problem, Inputs inputs, Tensor out, Tensor sum_out) {
  return std::make_unique<LayerNormExchange>(problem, std::move(inputs), std::move(out), std::move(sum_out));
}

std::string options_in_words(const Exchange& exchange) {
  const Problem& p = exchange.problem().as<Problem>();
  std::string text = fmt::format("{}, epsilon {}", p.norm == Norm::rms ? "rms" : "layer", p.epsilon);
  for (const auto& [name, tensor] : exchange.inputs())
    if (name != "x") text += fmt::format(", {}", name);
  return text;
}

}  // namespace attest::ops::of_layer_norm
