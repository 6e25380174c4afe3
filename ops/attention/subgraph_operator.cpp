#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <optional>
#include <span>

#include "core/policy.hpp"
#include "ops/attention/parts.hpp"
#include "ops/attention/subgraph.hpp"
#include "oracle/attention.hpp"

namespace attest::ops::of_attention {
namespace {

using graph::Array;
using graph::Connections;
using graph::Node;

Tensor tensor_of(const Heads& heads, const Array& x, DType type) {
  const std::array shape{heads.batch, heads.heads, heads.length, heads.width};
  Tensor made(type, shape);
  for_each_index(shape, [&](Index b, Index h, Index i, Index c) {
    made.set(b, h, i, c, x.floats[static_cast<std::size_t>(heads.place({b, h, i, c}))]);
  });
  return made;
}

class Operator final : public Subgraph {
 public:
  explicit Operator(const Fused& node) : node_(node) {}

  [[nodiscard]] SubgraphVerdict judge(const NumbersOfValues& numbers, const Array& got,
                                      const graph::Precision& precision) const override {
    const Array &q = numbers.at(node_.q), &k = numbers.at(node_.k), &v = numbers.at(node_.v);
    const Heads of_q(q, node_.heads), of_k(k, node_.kv_heads), of_v(v, node_.kv_heads), of_out(got, node_.heads);
    const DType type = dtype_of(graph::format_of(got.type));
    Problem problem;
    problem.b = of_q.batch;
    problem.hq = of_q.heads;
    problem.hkv = of_k.heads;
    problem.lq = of_q.length;
    problem.lk = of_k.length;
    problem.d = of_q.width;
    problem.dv = of_v.width;
    problem.dtype = graph::format_of(got.type);
    problem.causal = node_.causal;
    problem.scale = node_.scale.value_or(1 / std::sqrt(static_cast<double>(of_q.width)));
    const std::array scores{problem.b, problem.hq, problem.lq, problem.lk};
    if (product_of(scores) > most_scores || got.size() == 0 || problem.lk == 0)
      return unjudged("it is too large, or empty");
    if (!std::isfinite(*problem.scale)) return unjudged("its scale is no number");
    Inputs inputs;
    inputs.scale = *problem.scale;
    inputs.causal = node_.causal;
    inputs.q = tensor_of(of_q, q, type);
    inputs.k = tensor_of(of_k, k, type);
    inputs.v = tensor_of(of_v, v, type);
    if (node_.mask >= 0) {
      const Array& mask = numbers.at(node_.mask);
      const auto all = broadcast_numbers(mask, scores);
      if (!all) return unjudged("its mask does not broadcast to its scores");
      if (mask.type == graph::Type::boolean)
        inputs.keep = packed_tensor(*all, DType::boolean, scores);
      else if (graph::is_floating(mask.type))
        inputs.bias = packed_tensor(*all, dtype_of(graph::format_of(mask.type)), scores);
      else
        return unjudged("its mask is of integers");
    }
    SubgraphVerdict told =
        verdict_on(precision, problem, inputs, node_.softmax.value_or(problem.dtype), tensor_of(of_out, got, type));
    if (const auto& evidence = told.verdict.evidence) told.element = of_out.place(evidence->index);
    return told;
  }

 private:
  Fused node_;
};

}  // namespace

Heads::Heads(const Array& x, Index heads_of_three) {
  three = x.rank() == 3;
  batch = x.shape[0];
  heads = three ? heads_of_three : x.shape[1];
  length = x.shape[three ? 1 : 2];
  width = three ? x.shape[2] / std::max<Index>(heads, 1) : x.shape[3];
}

Contract contract_of(const graph::Precision& precision, Format storage, Format softmax) {
  const Format inner = precision.computed(storage), sums = graph::accumulator_of(inner),
               of_softmax = precision.computed(softmax);
  Contract contract = contract_for(Policy(inner)
                                       .set(Stage::storage, storage)
                                       .set(Stage::output, storage)
                                       .set(Stage::qk, sums)
                                       .set(Stage::pv, sums)
                                       .set(Stage::softmax, of_softmax));
  // No document of a graph says how good its functions are, or how sums are divided by: polynomials in the format
  // itself are good to some ulps, a product with a reciprocal to one and a half.
  contract.arithmetic.exp_ulp = is_short(of_softmax) ? 1 : 4;
  contract.arithmetic.div_ulp = 1.5;
  contract.arithmetic.flush_to_zero = inner == Format::f32 || inner == Format::bf16;
  contract.mask_added = true;
  return contract;
}

SubgraphVerdict verdict_on(const graph::Precision& precision, const Problem& problem, const Inputs& inputs,
                           Format softmax, const Tensor& out) {
  const Contract contract = contract_of(precision, problem.dtype, softmax);
  SubgraphVerdict told;
  told.bound = fmt::format("attention, policy {}", attest::to_text(contract.policy));
  told.verdict = oracle::AttentionOracle(contract, problem, inputs).judge(out, {});
  return told;
}

std::optional<Format> format_numbered(Index type) {
  const std::optional<graph::Type> known = graph::type_numbered(type);
  if (!known || !graph::is_floating(*known)) return std::nullopt;
  return graph::format_of(*known);
}

Fused fused_of(const Node& node) {
  Fused fused;
  fused.q = node.inputs[0];
  fused.k = node.inputs[1];
  fused.v = node.inputs[2];
  if (node.inputs.size() > 3) fused.mask = node.inputs[3];
  fused.heads = graph::integer_of(node, "q_num_heads", 0);
  fused.kv_heads = graph::integer_of(node, "kv_num_heads", 0);
  fused.causal = graph::integer_of(node, "is_causal", 0) != 0;
  if (const auto scale = node.attributes.find("scale"); scale != node.attributes.end()) {
    if (const auto* const number = std::get_if<double>(&scale->second)) fused.scale = *number;
  }
  fused.softmax = format_numbered(graph::integer_of(node, "softmax_precision", 0));
  return fused;
}

bool is_plain(const Node& node) {
  const auto softcap = node.attributes.find("softcap");
  const auto* const cap = softcap == node.attributes.end() ? nullptr : std::get_if<double>(&softcap->second);
  const auto left_out = [](int value) { return value < 0; };
  const auto none_behind = [&](const std::vector<int>& values, std::size_t first) {
    return values.size() <= first || std::ranges::all_of(std::span(values).subspan(first), left_out);
  };
  return none_behind(node.inputs, 4) && none_behind(node.outputs, 1) && (cap == nullptr || *cap == 0) &&
         graph::integer_of(node, "left_window_size", -1) < 0 && graph::integer_of(node, "right_window_size", -1) < 0;
}

std::unique_ptr<Subgraph> operator_of(const Connections& graph, const Node& node) {
  const Fused fused = fused_of(node);
  auto found = std::make_unique<Operator>(fused);
  found->core = found->output = node.outputs[0];
  found->judged_by = {fused.q, fused.k, fused.v};
  if (fused.mask >= 0) found->judged_by.push_back(fused.mask);
  for (const int value : found->judged_by) feed(*found, graph, value);
  return found;
}

}  // namespace attest::ops::of_attention
