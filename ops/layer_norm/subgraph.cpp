#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>

#include "ops/layer_norm/parts.hpp"
#include "ops/subgraph.hpp"
#include "oracle/layer_norm/oracle.hpp"

namespace attest::ops::of_layer_norm {
namespace {

using graph::Array;
using graph::Connections;
using graph::Node;

// (x - mean) / sqrt(mean of its squares + epsilon), times gamma and plus beta; without the mean RMSNorm. Values are
// those of the model.
struct Nodes {
  bool centred = true;
  bool is_operator = false;  // LayerNormalization or RMSNormalization
  int x = -1;
  std::vector<Index> axes{};   // the normalised axes, as the file counts them; an operator's first one
  std::optional<int> epsilon;  // a tensor of one element, or of an operator a number
  double epsilon_of_operator = 0;
  std::optional<int> gamma, beta;
};

// The contracts of a runtime of this precision: it keeps one of them.
std::vector<Contract> contracts_of(const graph::Precision& precision, Format storage, const Nodes& nodes) {
  using attest::layer_norm::Stage;
  const Format inner = precision.computed(storage);
  auto policy = Policy(inner).set(Stage::storage, storage).set(Stage::output, storage);
  // `stash_type` of the operators: statistics in float32, of double too.
  if (nodes.is_operator && inner == Format::f64)
    policy.set(Stage::statistics, Format::f32).set(Stage::normalise, Format::f32);
  auto contract = attest::layer_norm::contract_for(policy);
  auto& how = contract.arithmetic;
  how.rsqrt_ulp = is_short(inner) ? 1 : 4;
  how.flush_to_zero = inner == Format::f32 || inner == Format::bf16 ? attest::layer_norm::FlushToZero::inputs
                                                                    : attest::layer_norm::FlushToZero::no;
  // Two passes are what the graph says. Who fuses may go Welford's way, whose parts are joined: a bound that is wider,
  // but for rows of equal numbers.
  std::vector<Contract> all;
  using attest::layer_norm::NormForm, attest::layer_norm::Variance;
  for (const Variance variance : {Variance::two_pass, Variance::welford}) {
    if (variance == Variance::welford && !nodes.centred) break;
    how.variance = variance;
    if (variance == Variance::welford) {
      how.merge = attest::layer_norm::Merge::delta;
      how.merge_depth = 64;
    }
    for (const NormForm form : {NormForm::centred, NormForm::scale_bias, NormForm::folded, NormForm::weighted_scale}) {
      how.form = form;
      how.norm_rounded = form == NormForm::centred;
      all.push_back(contract);
    }
  }
  return all;
}

class Spelt final : public Subgraph {
 public:
  explicit Spelt(Nodes nodes) : nodes_(std::move(nodes)) {}

  [[nodiscard]] SubgraphVerdict judge(const NumbersOfValues& numbers, const Array& got,
                                      const graph::Precision& precision) const override;

 private:
  Nodes nodes_;
};

SubgraphVerdict Spelt::judge(const NumbersOfValues& numbers, const Array& got,
                             const graph::Precision& precision) const {
  const Nodes& nodes = nodes_;
  const Array& x = numbers.at(nodes.x);
  if (x.type != got.type || x.shape != got.shape || x.rank() == 0)
    return unjudged("it gives another type or shape than it takes");
  // The last axes, all of them.
  std::vector<bool> reduced(x.shape.size(), false);
  for (const Index axis : nodes.axes) {
    const Index from_front = axis < 0 ? axis + x.rank() : axis;
    if (from_front < 0 || from_front >= x.rank()) return unjudged("it has no such axis");
    reduced[static_cast<std::size_t>(from_front)] = true;
  }
  const auto first = std::ranges::find(reduced, true) - reduced.begin();
  if (nodes.is_operator) std::fill(reduced.begin() + first, reduced.end(), true);
  if (std::find(reduced.begin() + first, reduced.end(), false) != reduced.end())
    return unjudged("its axes are not the last ones");
  const std::span tail = std::span(x.shape).subspan(static_cast<std::size_t>(first));
  const Index hidden = product_of(tail), rows = hidden == 0 ? 0 : x.size() / hidden;
  if (rows == 0) return unjudged("it is empty");

  const Format format = graph::format_of(x.type);
  const DType type = dtype_of(format);
  Problem problem;
  problem.rows = rows;
  problem.hidden = hidden;
  problem.dtype = format;
  problem.norm = nodes.centred ? attest::layer_norm::Norm::layer : attest::layer_norm::Norm::rms;
  problem.epsilon = nodes.epsilon_of_operator;
  if (nodes.epsilon) {
    const Array& epsilon = numbers.at(*nodes.epsilon);
    if (epsilon.floats.size() != 1 || !(epsilon.floats[0] >= 0) || !std::isfinite(epsilon.floats[0]))
      return unjudged("its epsilon is no number");
    problem.epsilon = epsilon.floats[0];
  }
  attest::layer_norm::Inputs inputs;
  inputs.epsilon = problem.epsilon;
  inputs.norm = problem.norm;
  const std::array shape{rows, hidden};
  inputs.x = packed_tensor(x.floats, type, shape);
  problem.gamma = problem.beta = attest::layer_norm::Weights::none;
  for (const auto& [value, tensor, weights] :
       {std::tuple(nodes.gamma, &inputs.gamma, &problem.gamma), std::tuple(nodes.beta, &inputs.beta, &problem.beta)}) {
    if (!value) continue;
    const Array& given = numbers.at(*value);
    const auto numbers_of_row = given.type == x.type ? broadcast_numbers(given, tail) : std::nullopt;
    if (!numbers_of_row) return unjudged("its scale or bias is not that of a row");
    *tensor = packed_tensor(*numbers_of_row, type, std::array{hidden});
    *weights = attest::layer_norm::Weights::normal;
  }
  const Tensor out = packed_tensor(got.floats, type, shape);
  // A runtime keeps one of them throughout: a result that none of them permits is wrong.
  std::optional<SubgraphVerdict> told;
  for (const auto& contract : contracts_of(precision, format, nodes)) {
    Verdict verdict = oracle::layer_norm::LayerNormOracle(contract, problem, inputs).judge(out, {});
    const bool fails = verdict.kind == VerdictKind::fail;
    if (told && fails) continue;
    told = SubgraphVerdict{std::move(verdict),
                           fmt::format("{}, policy {}", nodes.centred ? "LayerNorm" : "RMSNorm",
                                       attest::layer_norm::to_text(contract.policy)),
                           0};
    if (!fails) return *std::move(told);
    told->element = told->verdict.evidence->index[0] * hidden + told->verdict.evidence->index[1];
  }
  return *std::move(told);
}

class Search {
 public:
  explicit Search(const Connections& graph) : graph_(graph) {}

  [[nodiscard]] std::unique_ptr<Subgraph> norm(const Node& node) const {
    if (!graph::is_own(node)) return nullptr;
    if (node.op == "LayerNormalization" || node.op == "RMSNormalization") return of_operator(node);
    if (node.op == "Div") return normalised(node, node.inputs[0], graph_.giver(node.inputs[1], "Sqrt"));
    if (node.op != "Mul") return nullptr;
    for (const bool second : {true, false})
      if (auto found = normalised(node, node.inputs[second ? 0 : 1], root_below(node.inputs[second ? 1 : 0])))
        return found;
    return nullptr;
  }
  // The root of a mean, and perhaps an epsilon, by which `node` divides; nullptr of another node.
  [[nodiscard]] const Node* root(const Node& node) const {
    if (!graph::is_own(node) || (node.op != "Div" && node.op != "Mul")) return nullptr;
    if (node.op == "Div" && graph_.is_constant(node.inputs[0])) return nullptr;  // a reciprocal: its reader is
    for (std::size_t k = node.op == "Div" ? 1 : 0; k < 2; ++k) {
      const Node* const root = node.op == "Mul" ? root_below(node.inputs[k]) : graph_.giver(node.inputs[k], "Sqrt");
      if (root == nullptr) continue;
      const Node* const sum = graph_.giver(root->inputs[0], "Add");
      for (const int mean : sum == nullptr ? root->inputs : sum->inputs)
        if (graph_.giver(mean, "ReduceMean") != nullptr) return root;
    }
    return nullptr;
  }

 private:
  [[nodiscard]] std::unique_ptr<Subgraph> of_operator(const Node& node) const {
    Nodes nodes;
    nodes.centred = node.op == "LayerNormalization";
    nodes.is_operator = true;
    nodes.x = node.inputs[0];
    nodes.axes = {graph::integer_of(node, "axis", -1)};
    nodes.epsilon_of_operator = static_cast<double>(1e-5F);
    if (const auto epsilon = node.attributes.find("epsilon"); epsilon != node.attributes.end()) {
      const auto* const number = std::get_if<double>(&epsilon->second);
      if (number == nullptr) return nullptr;
      nodes.epsilon_of_operator = *number;
    }
    nodes.gamma = node.inputs[1];
    if (node.inputs.size() > 2 && node.inputs[2] >= 0) nodes.beta = node.inputs[2];
    return made(std::move(nodes), node.outputs[0], node.outputs[0]);
  }

  // The Sqrt node of 1 / sqrt(..).
  [[nodiscard]] const Node* root_below(int value) const {
    if (const Node* const reciprocal = graph_.giver(value, "Reciprocal"))
      return graph_.giver(reciprocal->inputs[0], "Sqrt");
    const Node* const quotient = graph_.giver(value, "Div");
    return quotient != nullptr && graph_.is_number(quotient->inputs[0], 1) ? graph_.giver(quotient->inputs[1], "Sqrt")
                                                                           : nullptr;
  }

  // d / root(..), which `node` gives.
  [[nodiscard]] std::unique_ptr<Subgraph> normalised(const Node& node, int d, const Node* root) const {
    const Node* const sum = root == nullptr ? nullptr : graph_.giver(root->inputs[0], "Add");
    if (sum == nullptr) return nullptr;
    for (const bool second : {true, false}) {
      const int epsilon = sum->inputs[second ? 1 : 0];
      const Node* const variance = graph_.giver(sum->inputs[second ? 0 : 1], "ReduceMean");
      if (variance == nullptr || !graph_.may_be_single(epsilon)) continue;
      const auto squared = base_of_square(variance->inputs[0]);
      auto axes = axes_of(*variance);
      if (!squared || !axes) continue;
      const auto x = centred(d, *axes);
      // The difference may stand there twice.
      const bool has_mean = x && (*squared == d || centred(*squared, *axes) == x);
      if (!has_mean && *squared != d) continue;
      Nodes nodes;
      nodes.centred = has_mean;
      nodes.x = has_mean ? *x : d;
      nodes.axes = std::move(*axes);
      nodes.epsilon = epsilon;
      return affine(std::move(nodes), node.outputs[0]);
    }
    return nullptr;
  }

  // The x of x - mean(x) over these axes.
  [[nodiscard]] std::optional<int> centred(int value, const std::vector<Index>& axes) const {
    const Node* const difference = graph_.giver(value, "Sub");
    if (difference == nullptr) return std::nullopt;
    const Node* const mean = graph_.giver(difference->inputs[1], "ReduceMean");
    if (mean == nullptr || mean->inputs[0] != difference->inputs[0] || axes_of(*mean) != axes) return std::nullopt;
    return difference->inputs[0];
  }

  [[nodiscard]] std::optional<int> base_of_square(int value) const {
    if (const Node* const power = graph_.giver(value, "Pow"); power != nullptr && graph_.is_number(power->inputs[1], 2))
      return power->inputs[0];
    const Node* const product = graph_.giver(value, "Mul");
    if (product == nullptr || product->inputs[0] != product->inputs[1]) return std::nullopt;
    return product->inputs[0];
  }

  // nullopt where they are not stated, or are not kept.
  [[nodiscard]] std::optional<std::vector<Index>> axes_of(const Node& mean) const {
    if (graph::integer_of(mean, "keepdims", 1) == 0) return std::nullopt;
    std::vector<Index> axes;
    if (const auto found = mean.attributes.find("axes"); found != mean.attributes.end()) {
      if (const auto* const list = std::get_if<std::vector<std::int64_t>>(&found->second))
        axes.assign(list->begin(), list->end());
    } else if (const auto* const list = mean.inputs.size() < 2 ? nullptr : graph_.constant(mean.inputs[1])) {
      axes = list->array().integers;
    }
    return axes.empty() ? std::nullopt : std::optional(std::move(axes));
  }

  // Adds gamma and beta, where these are parameters (no residual, no gate) and their node is the only reader.
  [[nodiscard]] std::unique_ptr<Subgraph> affine(Nodes nodes, int core) const {
    int output = core;
    const auto take = [this, &output](std::string_view op) -> std::optional<int> {
      const Node* const reader = graph_.only_reader(output, op);
      if (reader == nullptr) return std::nullopt;
      const int other = reader->inputs[reader->inputs[0] == output ? 1 : 0];
      if (!graph_.is_constant(other)) return std::nullopt;
      output = reader->outputs[0];
      return other;
    };
    nodes.gamma = take("Mul");
    nodes.beta = take("Add");
    return made(std::move(nodes), core, output);
  }

  [[nodiscard]] std::unique_ptr<Subgraph> made(Nodes nodes, int core, int output) const {
    std::vector<int> values{nodes.x};
    for (const auto& one : {nodes.epsilon, nodes.gamma, nodes.beta})
      if (one) values.push_back(*one);
    auto found = std::make_unique<Spelt>(std::move(nodes));
    found->core = core;
    found->output = output;
    for (const int value : values) feed(*found, graph_, value);
    found->judged_by = std::move(values);
    return found;
  }

  const Connections& graph_;
};

}  // namespace

std::vector<std::unique_ptr<Subgraph>> subgraphs(const Connections& graph) {
  std::vector<std::unique_ptr<Subgraph>> found;
  const Search search(graph);
  for (const Node& node : graph.model().nodes)
    if (auto one = search.norm(node)) found.push_back(std::move(one));
  return found;
}

std::vector<Unrecognised> unrecognised(const Connections& graph) {
  const Search search(graph);
  std::vector<Unrecognised> all;
  for (const Node& node : graph.model().nodes) {
    if (node.outputs.empty() || node.outputs[0] < 0) continue;
    if (node.op.find("Normalization") != std::string::npos && search.norm(node) == nullptr) {
      all.push_back({node.outputs[0], fmt::format("no bound is proven of {}", node.op)});
    } else if (const Node* const root = search.root(node); root != nullptr && search.norm(node) == nullptr) {
      all.push_back(
          {node.outputs[0],
           "it divides by the root of a mean, and is not (x - mean) or x over the root of its own mean square "
           "and epsilon"});
    }
  }
  return all;
}

}  // namespace attest::ops::of_layer_norm
