#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "core/inputs.hpp"
#include "ops/attention/parts.hpp"
#include "ops/attention/subgraph.hpp"
#include "oracle/numbers.hpp"

namespace attest::ops::of_attention {
namespace {

using graph::Array;
using graph::Connections;
using graph::Node;

// One number for all that scale a tensor; none where one of them is no single number, or is 0 or none.
std::optional<double> number_of(const std::vector<Scaling>& scalings, const NumbersOfValues& numbers) {
  double scale = 1;
  for (const Scaling& one : scalings) {
    const Array& array = numbers.at(one.value);
    if (array.floats.size() != 1 || array.size() != 1) return std::nullopt;
    scale = one.divides ? scale / array.floats[0] : scale * array.floats[0];
  }
  if (!std::isfinite(scale) || scale == 0) return std::nullopt;
  return scale;
}

class Explicit final : public Subgraph {
 public:
  explicit Explicit(Spelt nodes) : nodes_(std::move(nodes)) {}

  [[nodiscard]] SubgraphVerdict judge(const NumbersOfValues& numbers, const Array& got,
                                      const graph::Precision& precision) const override;

 private:
  Spelt nodes_;
};

SubgraphVerdict Explicit::judge(const NumbersOfValues& numbers, const Array& got,
                                const graph::Precision& precision) const {
  const SpeltCall call = call_of(nodes_, numbers, got);
  if (!call.unjudged.empty()) return unjudged(call.unjudged);
  const auto queries = broadcast_numbers(numbers.at(nodes_.q), call.with(call.rows, call.d)),
             keys = rows_of_keys(numbers.at(nodes_.k_transposed), call),
             values = broadcast_numbers(numbers.at(nodes_.v), call.with(call.keys, call.dv));
  if (!queries || !keys || !values) return unjudged("its tensors do not broadcast to its output");
  const DType type = dtype_of(call.format);
  const std::array scores{call.samples, Index{1}, call.rows, call.keys};
  Problem problem;
  problem.b = call.samples;
  problem.lq = call.rows;
  problem.lk = call.keys;
  problem.d = call.d;
  problem.dv = call.dv;
  problem.dtype = call.format;
  problem.scale = call.scale;
  Inputs inputs;
  inputs.scale = call.scale;
  inputs.q = packed_tensor(*queries, type, std::array{call.samples, Index{1}, call.rows, call.d});
  inputs.k = packed_tensor(*keys, type, std::array{call.samples, Index{1}, call.keys, call.d});
  inputs.v = packed_tensor(*values, type, std::array{call.samples, Index{1}, call.keys, call.dv});
  if (call.bias) inputs.bias = packed_tensor(*call.bias, dtype_of(call.bias_format), scores);
  if (nodes_.choice)
    inputs.keep = packed_tensor(kept(*nodes_.choice, call, {*queries, *keys, {}, {}, 20}), DType::boolean, scores);
  SubgraphVerdict told =
      verdict_on(precision, problem, inputs, call.softmax,
                 packed_tensor(got.floats, type, std::array{call.samples, Index{1}, call.rows, call.dv}));
  if (const auto& evidence = told.verdict.evidence)
    told.element = (evidence->index[0] * call.rows + evidence->index[2]) * call.dv + evidence->index[3];
  return told;
}

class Recognition {
 public:
  explicit Recognition(const Connections& graph) : graph_(graph) {}

  [[nodiscard]] std::optional<Spelt> attention(const Node& product) {
    Spelt nodes;
    int weights = product.inputs[0];
    if (!pass_casts(weights, nodes)) return std::nullopt;
    softmax_ = graph_.giver(weights, "Softmax");
    const Node* const softmax = softmax_;
    // Before version 13 all axes from the named one on were one.
    if (softmax == nullptr || graph_.model().opset < 13) return std::nullopt;
    nodes.softmax_axis = graph::integer_of(*softmax, "axis", -1);
    nodes.v = product.inputs[1];
    nodes.softmax_input = softmax->inputs[0];
    if (!scores(softmax->inputs[0], nodes)) return std::nullopt;
    return nodes;
  }
  // The softmax whose weights the product takes; nullptr where it takes none.
  [[nodiscard]] const Node* softmax() const noexcept { return softmax_; }
  // The reason why there is no attention around it.
  [[nodiscard]] std::string why_not() const {
    if (graph_.model().opset < 13) return "its Softmax is of an operator version before 13";
    return fmt::format(
        "its scores come from {}, where a product of q and k with one scale, one addend and one Where "
        "is looked for",
        fmt::join(ends_, " and "));
  }

 private:
  // Goes back over what changes no number but its format. False for a conversion to another kind of numbers.
  bool pass_casts(int& value, Spelt& nodes) const {
    while (true) {
      if (const Node* const same = graph_.giver(value, "Identity")) {
        value = same->inputs[0];
        continue;
      }
      const Node* const cast = graph_.giver(value, "Cast");
      if (cast == nullptr) return true;
      const auto to = format_numbered(graph::integer_of(*cast, "to", 0));
      if (!to) return false;
      nodes.casts.push_back(*to);
      value = cast->inputs[0];
    }
  }

  // Goes back from what softmax takes to the product of q and k.
  [[nodiscard]] bool scores(int value, Spelt& nodes) {
    const bool passed = pass_casts(value, nodes);
    const auto ends = [this, value] {
      ends_.insert(giver_in_words(graph_, value));
      return false;
    };
    if (!passed) return ends();
    if (const Node* const product = graph_.giver(value, "MatMul")) {
      nodes.q = unscaled(product->inputs[0], nodes.of_q);
      nodes.k_transposed = unscaled(product->inputs[1], nodes.of_k);
      return true;
    }
    // A second Where or Add, and one before a scale, is no part of it.
    const bool further = !nodes.of_scores.empty();
    if (const Node* const where = graph_.giver(value, "Where"))
      return nodes.choice || further ? ends() : behind_choice(*where, nodes);
    if (const Node* const sum = graph_.giver(value, "Add"))
      return nodes.bias || further ? ends() : behind_bias(*sum, nodes);
    const auto scaling = scaled(graph_, value);
    if (!scaling || nodes.of_scores.size() == 2) return ends();
    nodes.of_scores.push_back(scaling->second);
    return scores(scaling->first, nodes);
  }

  [[nodiscard]] bool behind_choice(const Node& where, Spelt& nodes) {
    for (const bool first : {true, false}) {
      const int scored = where.inputs[first ? 1 : 2], other = where.inputs[first ? 2 : 1];
      Spelt one = nodes;
      one.choice = {where.inputs[0], first, other, nodes.bias.has_value()};
      if (!graph_.may_be_single(other) || !scores(scored, one)) continue;
      nodes = std::move(one);
      return true;
    }
    if (ends_.empty()) ends_.insert(where.op);  // its other side is not one number
    return false;
  }

  [[nodiscard]] bool behind_bias(const Node& sum, Spelt& nodes) {
    for (const bool first : {true, false}) {
      Spelt one = nodes;
      one.bias = sum.inputs[first ? 1 : 0];
      if (!scores(sum.inputs[first ? 0 : 1], one)) continue;
      nodes = std::move(one);
      return true;
    }
    return false;
  }

  [[nodiscard]] int unscaled(int value, std::vector<Scaling>& scalings) const {
    const auto scaling = scaled(graph_, value);
    if (!scaling) return value;
    scalings.push_back(scaling->second);
    return scaling->first;
  }

  const Connections& graph_;
  const Node* softmax_ = nullptr;
  std::set<std::string> ends_;  // givers that end the ways back from the softmax, if no product does
};

}  // namespace

std::optional<std::pair<int, Scaling>> scaled(const Connections& graph, int value) {
  if (const Node* const quotient = graph.giver(value, "Div");
      quotient != nullptr && graph.may_be_single(quotient->inputs[1]))
    return std::pair(quotient->inputs[0], Scaling{quotient->inputs[1], true});
  const Node* const product = graph.giver(value, "Mul");
  if (product == nullptr) return std::nullopt;
  for (const bool second : {true, false}) {
    const int scale = product->inputs[second ? 1 : 0];
    if (graph.may_be_single(scale)) return std::pair(product->inputs[second ? 0 : 1], Scaling{scale, false});
  }
  return std::nullopt;
}

std::optional<Spelt> spelt_out(const Connections& graph, const Node& product) {
  return Recognition(graph).attention(product);
}

std::vector<int> beside(const Spelt& nodes) {
  std::vector<int> others;
  for (const auto* scalings : {&nodes.of_q, &nodes.of_k, &nodes.of_scores})
    for (const Scaling& one : *scalings) others.push_back(one.value);
  if (nodes.bias) others.push_back(*nodes.bias);
  if (nodes.choice) others.insert(others.end(), {nodes.choice->flags, nodes.choice->closed});
  return others;
}

SpeltCall call_of(const Spelt& nodes, const NumbersOfValues& numbers, const Array& got) {
  SpeltCall call;
  const auto none = [&call](const char* reason) {
    call.unjudged = reason;
    return call;
  };
  const Array &q = numbers.at(nodes.q), &k = numbers.at(nodes.k_transposed), &v = numbers.at(nodes.v);
  for (const Array* one : {&q, &k, &v})
    if (one->type != got.type || one->rank() < 2) return none("its tensors are of several types, or of one axis");
  const auto rank = got.shape.size();
  call.format = graph::format_of(got.type);
  call.softmax = graph::format_of(numbers.at(nodes.softmax_input).type);
  for (const Format cast : nodes.casts)
    if (oracle::loses(cast, call.format)) return none("its scores or weights pass through a narrower type");
  if (nodes.softmax_axis != -1 && nodes.softmax_axis != numbers.at(nodes.softmax_input).rank() - 1)
    return none("its softmax is over another axis");
  call.rows = got.shape[rank - 2];
  call.d = q.shape.back();
  call.keys = v.shape[v.shape.size() - 2];
  call.dv = v.shape.back();
  if (q.shape[q.shape.size() - 2] != call.rows || k.shape.back() != call.keys)
    return none("its bias has more rows or keys than its scores");
  call.leading.assign(got.shape.begin(), got.shape.end() - 2);
  call.samples = product_of(call.leading);
  if (call.samples * call.rows * call.keys > most_scores || call.samples * call.rows == 0 || call.keys == 0)
    return none("it is too large, or empty");

  const auto of_q = number_of(nodes.of_q, numbers), of_k = number_of(nodes.of_k, numbers),
             of_scores = number_of(nodes.of_scores, numbers);
  const int places = (nodes.of_q.empty() ? 0 : 1) + (nodes.of_k.empty() ? 0 : 1) + (nodes.of_scores.empty() ? 0 : 1);
  const bool roots = places == 2 && nodes.of_scores.empty() && of_q == of_k && of_q > 0.0;
  if (!of_q || !of_k || !of_scores || (places > 1 && !roots)) return none("its scale is no single number in one place");
  call.scale = *of_q * *of_k * *of_scores;

  if (nodes.bias) {
    const Array& given = numbers.at(*nodes.bias);
    call.bias = broadcast_numbers(given, call.with(call.rows, call.keys));
    if (!call.bias) return none("its tensors do not broadcast to its output");
    if (!graph::is_floating(given.type)) return none("its bias is of integers");
    call.bias_format = graph::format_of(given.type);
  }
  if (nodes.choice) {
    const Array& closed = numbers.at(nodes.choice->closed);
    const auto flags = broadcast_numbers(numbers.at(nodes.choice->flags), call.with(call.rows, call.keys));
    if (!flags || closed.floats.size() != 1) return none("its mask does not broadcast to its output");
    call.flags = *flags;
    call.closed = closed.floats[0];
  }
  return call;
}

std::optional<std::vector<double>> rows_of_keys(const Array& transposed, const SpeltCall& call) {
  const auto all = broadcast_numbers(transposed, call.with(call.d, call.keys));
  if (!all) return std::nullopt;
  std::vector<double> by_key(all->size());
  for (Index s = 0; s < call.samples; ++s)
    for (Index c = 0; c < call.d; ++c)
      for (Index j = 0; j < call.keys; ++j)
        by_key[static_cast<std::size_t>((s * call.keys + j) * call.d + c)] =
            (*all)[static_cast<std::size_t>((s * call.d + c) * call.keys + j)];
  return by_key;
}

std::vector<double> kept(const Spelt::Choice& choice, const SpeltCall& call, const Factors& of) {
  const double nats = call.format == Format::f64 ? 800 : 200;  // e^-104 is 0 in float32, e^-746 in float64
  std::vector<double> open(call.flags.size(), 0);
  for (Index row = 0; row < call.samples * call.rows; ++row) {
    const auto first = static_cast<std::size_t>(row * call.keys);
    const Index sample = row / call.rows;
    double highest_open = -std::numeric_limits<double>::infinity(), highest_closed = highest_open, size = 0;
    bool sure = true;
    for (Index j = 0; j < call.keys; ++j) {
      const std::size_t at = first + static_cast<std::size_t>(j);
      const double added = call.bias ? (*call.bias)[at] : 0;
      if ((call.flags[at] != 0) != choice.keeps_where_true) {
        const double score = call.closed + (choice.before_bias ? added : 0);
        sure = sure && score < std::numeric_limits<double>::infinity();  // and no NaN
        highest_closed = std::max(highest_closed, score);
        continue;
      }
      open[at] = 1;
      double score = 0, magnitude = 0;
      for (Index c = 0; c < call.d; ++c) {
        const auto q = static_cast<std::size_t>(row * call.d + c),
                   k = static_cast<std::size_t>((sample * call.keys + j) * call.d + c);
        const double term = of.queries[q] * of.keys[k];
        score += term;
        magnitude += of.sizes_of_queries.empty() ? std::fabs(term) : of.sizes_of_queries[q] * of.sizes_of_keys[k];
      }
      sure = sure && std::isfinite(magnitude);
      highest_open = std::max(highest_open, score * call.scale + added);
      size = std::max(size, magnitude * std::fabs(call.scale));
      if (std::isfinite(added)) size = std::max(size, std::fabs(added));
    }
    if (!sure || !(highest_closed < highest_open - nats - size / of.share))
      std::fill_n(open.begin() + static_cast<std::ptrdiff_t>(first), call.keys, 0.0);
  }
  return open;
}

std::vector<std::unique_ptr<Subgraph>> subgraphs(const Connections& graph) {
  std::vector<std::unique_ptr<Subgraph>> found;
  for (const Node& node : graph.model().nodes) {
    if (!graph::is_own(node)) continue;
    if (node.op == "Attention" && is_plain(node)) found.push_back(operator_of(graph, node));
    auto nodes = node.op == "MatMul" ? spelt_out(graph, node) : std::nullopt;
    if (!nodes) continue;
    std::vector<int> begins, judged_by{nodes->q, nodes->k_transposed, nodes->v, nodes->softmax_input};
    for (const int value : {nodes->q, nodes->k_transposed, nodes->v}) begins.push_back(graph.before_moves(value));
    for (const int value : beside(*nodes)) {
      begins.push_back(value);
      judged_by.push_back(value);
    }
    auto one = std::make_unique<Explicit>(*std::move(nodes));
    one->core = one->output = node.outputs[0];
    for (const int value : begins) feed(*one, graph, value);
    one->judged_by = std::move(judged_by);
    found.push_back(std::move(one));
  }
  return found;
}

std::vector<Unrecognised> unrecognised(const Connections& graph) {
  std::map<const Node*, std::string> why;  // reasons by softmax; empty where it is one
  for (const Node& node : graph.model().nodes) {
    if (node.op != "MatMul" || !graph::is_own(node)) continue;
    Recognition recognition(graph);
    const bool found = recognition.attention(node).has_value();
    if (recognition.softmax() != nullptr) why[recognition.softmax()] = found ? std::string() : recognition.why_not();
  }
  std::vector<Unrecognised> all;
  for (const Node& node : graph.model().nodes) {
    if (node.outputs.empty() || node.outputs[0] < 0) continue;
    if (!graph::is_own(node) && node.op.find("Attention") != std::string::npos)
      all.push_back({node.outputs[0], fmt::format("no bound is proven of {} of the domain {}", node.op, node.domain)});
    if (graph::is_own(node) && node.op == "Attention" && !is_plain(node))
      all.push_back({node.outputs[0], "no bound is proven of Attention with past keys, lengths, windows or a softcap"});
    if (node.op != "Softmax" || !graph::is_own(node)) continue;
    const auto found = why.find(&node);
    if (found == why.end())
      all.push_back({node.outputs[0], "no product takes its weights as they are"});
    else if (!found->second.empty())
      all.push_back({node.outputs[0], found->second});
  }
  return all;
}

}  // namespace attest::ops::of_attention
