#include "ops/mha/subgraph_places.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/error.hpp"
#include "graph/program.hpp"

namespace attest::ops::of_mha {

using graph::Array;
using of_attention::Heads;
using of_attention::SpeltCall;
using std::size_t;

std::optional<Linear> linear_of(const Projection& one, const NumbersOfValues& numbers, graph::Type type) {
  const Array &x = numbers.at(one.x), &w = numbers.at(one.weight);
  if (x.type != type || w.type != type || w.rank() != 2 || x.rank() < 1 || w.size() == 0) return std::nullopt;
  Linear linear;
  linear.x = &x;
  linear.inputs = w.shape[one.transposed ? 1 : 0];
  linear.outputs = w.shape[one.transposed ? 0 : 1];
  if (x.shape.back() != linear.inputs) return std::nullopt;
  linear.tokens = x.size() / linear.inputs;
  linear.weight = w.floats;
  if (!one.transposed)
    for (Index n = 0; n < linear.outputs; ++n)
      for (Index c = 0; c < linear.inputs; ++c)
        linear.weight[static_cast<size_t>(n * linear.inputs + c)] =
            w.floats[static_cast<size_t>(c * linear.outputs + n)];
  linear.bias.assign(static_cast<size_t>(linear.outputs), 0);
  if (one.bias < 0) return linear;
  const Array& bias = numbers.at(one.bias);
  if (bias.type != type) return std::nullopt;
  if (bias.size() == 1)
    std::ranges::fill(linear.bias, bias.floats[0]);
  else if (bias.size() == linear.outputs && bias.shape.back() == linear.outputs)
    linear.bias = bias.floats;
  else
    return std::nullopt;
  return linear;
}

std::vector<double> products_of(const Linear& linear, bool magnitudes) {
  std::vector<double> all(static_cast<size_t>(linear.tokens * linear.outputs));
  for (Index t = 0; t < linear.tokens; ++t)
    for (Index n = 0; n < linear.outputs; ++n) {
      const double bias = linear.bias[static_cast<size_t>(n)];
      double sum = magnitudes ? std::fabs(bias) : bias;
      for (Index c = 0; c < linear.inputs; ++c) {
        const double term = linear.at(t, c) * linear.weight[static_cast<size_t>(n * linear.inputs + c)];
        sum += magnitudes ? std::fabs(term) : term;
      }
      all[static_cast<size_t>(t * linear.outputs + n)] = sum;
    }
  return all;
}

Array numbered(const std::vector<Index>& shape) {
  std::vector<std::int64_t> places(static_cast<size_t>(product_of(shape)));
  std::iota(places.begin(), places.end(), std::int64_t{0});
  return graph::integers(graph::Type::i64, shape, std::move(places));
}

Core core_of(const Block& block, const NumbersOfValues& numbers) {
  Core core;
  const Array& gives = numbers.at(block.heads);
  SpeltCall& call = core.call;
  core.order.resize(static_cast<size_t>(gives.size()));
  if (block.spelt) {
    call = of_attention::call_of(*block.spelt, numbers, gives);
    std::iota(core.order.begin(), core.order.end(), Index{0});
    return core;
  }
  const of_attention::Fused& node = block.fused;
  const Heads q(numbers.at(node.q), node.heads), k(numbers.at(node.k), node.kv_heads),
      v(numbers.at(node.v), node.kv_heads), out(gives, node.heads);
  call.format = graph::format_of(gives.type);
  call.softmax = node.softmax.value_or(call.format);
  call.leading = {q.batch, q.heads};
  call.samples = q.batch * q.heads;
  call.rows = q.length;
  call.keys = k.length;
  call.d = q.width;
  call.dv = v.width;
  call.scale = node.scale.value_or(1 / std::sqrt(static_cast<double>(q.width)));
  core.causal = node.causal;
  if (call.samples * call.rows * call.keys > of_attention::most_scores || gives.size() == 0 || call.keys == 0)
    call.unjudged = "it is too large, or empty";
  else if (!std::isfinite(call.scale))
    call.unjudged = "its scale is no number";
  for (Index s = 0; s < call.samples; ++s)
    for (Index i = 0; i < call.rows; ++i)
      for (Index c = 0; c < call.dv; ++c)
        core.order[static_cast<size_t>(out.place({s / q.heads, s % q.heads, i, c}))] =
            (s * call.rows + i) * call.dv + c;
  if (node.mask < 0 || !call.unjudged.empty()) return core;
  const Array& mask = numbers.at(node.mask);
  auto all = broadcast_numbers(mask, call.with(call.rows, call.keys));
  if (!all) {
    call.unjudged = "its mask does not broadcast to its scores";
  } else if (mask.type == graph::Type::boolean) {
    core.keep = std::move(all);
  } else if (graph::is_floating(mask.type)) {
    call.bias = std::move(all);
    call.bias_format = graph::format_of(mask.type);
  } else {
    call.unjudged = "its mask is of integers";
  }
  return core;
}

std::optional<std::vector<double>> read_as(const Block& block, const SpeltCall& call, const Array& places, char which) {
  if (block.spelt) {
    if (which == 'k') return of_attention::rows_of_keys(places, call);
    return broadcast_numbers(places, which == 'q' ? call.with(call.rows, call.d) : call.with(call.keys, call.dv));
  }
  const Index q_heads = call.leading[1];
  const Heads heads(places, which == 'q' ? block.fused.heads : block.fused.kv_heads);
  const Index group = q_heads / std::max<Index>(heads.heads, 1);
  std::vector<double> all;
  for (Index s = 0; s < call.samples; ++s)
    for (Index i = 0; i < heads.length; ++i)
      for (Index c = 0; c < heads.width; ++c)
        all.push_back(static_cast<double>(
            places.integers[static_cast<size_t>(heads.place({s / q_heads, s % q_heads / group, i, c}))]));
  return all;
}

std::optional<Array> moved(const Moves& moves, const NumbersOfValues& numbers, Array places) {
  if (moves.from == moves.to) return places;
  graph::Model model = moves.model;
  model.inputs[0].shape.resize(places.shape.size());
  for (const auto& [value, own] : moves.operands) model.constants.emplace(own, numbers.at(value));
  graph::Feeds feeds;
  feeds.emplace(model.inputs[0].name, std::move(places));
  try {
    std::vector<Array> results = graph::Program(std::move(model)).run(feeds);
    return std::move(results.at(0));
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace attest::ops::of_mha
