#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
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

// A tensor of one element by which another one is multiplied or divided.
struct Scaling {
  int value = -1;
  bool divides = false;
};

// softmax(scale q k^T + bias) v, spelt out. Values are those of the model.
struct Nodes {
  int q = -1, k_transposed = -1, v = -1;       // as products of matrices read them, before they are scaled
  std::vector<Scaling> of_q, of_k, of_scores;  // one at most of q and of k, two of the product
  std::optional<int> bias;                     // added to what is scaled
  struct Choice {                              // Where: scores, or one number
    int flags = -1;
    bool keeps_where_true = true;
    int closed = -1;  // the number
    bool before_bias = false;
  };
  std::optional<Choice> choice;
  int softmax_input = -1;       // of the type that softmax is computed in
  Index softmax_axis = -1;      // which must be the last one
  std::vector<Format> casts{};  // between the products
};

// One number for all that scale a tensor; none where one of them is no single number, or is 0 or none.
std::optional<double> scale_of(const std::vector<Scaling>& scalings, const NumbersOfValues& numbers) {
  double scale = 1;
  for (const Scaling& one : scalings) {
    const Array& array = numbers.at(one.value);
    if (array.floats.size() != 1 || array.size() != 1) return std::nullopt;
    scale = one.divides ? scale / array.floats[0] : scale * array.floats[0];
  }
  if (!std::isfinite(scale) || scale == 0) return std::nullopt;
  return scale;
}

// Keys that Where leaves open. It sets the score of the others to a number, perhaps a finite one, where the operation leaves keys out: that is the same
// where no conforming weight of such a key is more than 0. Rows of which that is not sure keep no key, and are judged by nobody.
std::vector<double> kept(const Nodes::Choice& choice, const Problem& problem, const std::vector<double>& flags,
                         double closed, const std::vector<double>& queries, const std::vector<double>& keys,
                         const std::optional<std::vector<double>>& bias) {
  const double nats = problem.dtype == Format::f64 ? 800 : 200;  // e^-104 is 0 in float32, e^-746 in float64
  std::vector<double> open(flags.size(), 0);
  for (Index row = 0; row < problem.b * problem.lq; ++row) {
    const auto first = static_cast<std::size_t>(row * problem.lk);
    const Index sample = row / problem.lq;
    double highest_open = -std::numeric_limits<double>::infinity(), highest_closed = highest_open, size = 0;
    bool sure = true;
    for (Index j = 0; j < problem.lk; ++j) {
      const std::size_t at = first + static_cast<std::size_t>(j);
      const double added = bias ? (*bias)[at] : 0;
      if ((flags[at] != 0) != choice.keeps_where_true) {
        const double score = closed + (choice.before_bias ? added : 0);
        sure = sure && score < std::numeric_limits<double>::infinity();  // and no NaN
        highest_closed = std::max(highest_closed, score);
        continue;
      }
      open[at] = 1;
      double score = 0, magnitude = 0;
      for (Index d = 0; d < problem.d; ++d) {
        const double term = queries[static_cast<std::size_t>(row * problem.d + d)] *
                            keys[static_cast<std::size_t>((sample * problem.lk + j) * problem.d + d)];
        score += term;
        magnitude += std::fabs(term);
      }
      sure = sure && std::isfinite(magnitude);
      highest_open = std::max(highest_open, score * *problem.scale + added);
      size = std::max(size, magnitude * std::fabs(*problem.scale));
      if (std::isfinite(added)) size = std::max(size, std::fabs(added));
    }
    // Scores in 16 bits are off by less than a twentieth of what they are made of.
    if (!sure || !(highest_closed < highest_open - nats - size / 20))
      std::fill_n(open.begin() + static_cast<std::ptrdiff_t>(first), problem.lk, 0.0);
  }
  return open;
}

// ---- spelt out ------------------------------------------------------------------------------------------------------------

class Explicit final : public Subgraph {
 public:
  explicit Explicit(Nodes nodes) : nodes_(std::move(nodes)) {}

  [[nodiscard]] SubgraphVerdict judge(const NumbersOfValues& numbers, const Array& got,
                                      const graph::Precision& precision) const override;

 private:
  Nodes nodes_;
};

SubgraphVerdict Explicit::judge(const NumbersOfValues& numbers, const Array& got,
                                const graph::Precision& precision) const {
  const Nodes& nodes = nodes_;
  const Array &q = numbers.at(nodes.q), &k = numbers.at(nodes.k_transposed), &v = numbers.at(nodes.v);
  for (const Array* one : {&q, &k, &v})
    if (one->type != got.type || one->rank() < 2) return unjudged("its tensors are of several types, or of one axis");
  const auto rank = got.shape.size();
  const Index softmax_rank = numbers.at(nodes.softmax_input).rank();
  for (const Format cast : nodes.casts)
    if (oracle::loses(cast, graph::format_of(got.type)))
      return unjudged("its scores or weights pass through a narrower type");
  if (nodes.softmax_axis != -1 && nodes.softmax_axis != softmax_rank - 1)
    return unjudged("its softmax is over another axis");
  const Index rows = got.shape[rank - 2], width = q.shape.back(), keys = v.shape[v.shape.size() - 2];
  if (q.shape[q.shape.size() - 2] != rows || k.shape.back() != keys)
    return unjudged("its bias has more rows or keys than its scores");
  const std::span leading(got.shape.data(), rank - 2);
  const Index samples = product_of(leading);
  if (samples * rows * keys > most_scores || samples * rows == 0 || keys == 0)
    return unjudged("it is too large, or empty");
  const auto like = [&leading](Index a, Index b) {
    std::vector<Index> shape(leading.begin(), leading.end());
    shape.push_back(a);
    shape.push_back(b);
    return shape;
  };

  const auto of_q = scale_of(nodes.of_q, numbers), of_k = scale_of(nodes.of_k, numbers),
             of_scores = scale_of(nodes.of_scores, numbers);
  const int places = (nodes.of_q.empty() ? 0 : 1) + (nodes.of_k.empty() ? 0 : 1) + (nodes.of_scores.empty() ? 0 : 1);
  const bool roots = places == 2 && nodes.of_scores.empty() && of_q == of_k && of_q > 0.0;
  if (!of_q || !of_k || !of_scores || (places > 1 && !roots))
    return unjudged("its scale is no single number in one place");
  const double scale = *of_q * *of_k * *of_scores;

  const auto queries = broadcast_numbers(q, like(rows, width)), transposed = broadcast_numbers(k, like(width, keys)),
             values = broadcast_numbers(v, like(keys, v.shape.back()));
  const auto bias = nodes.bias ? broadcast_numbers(numbers.at(*nodes.bias), like(rows, keys)) : std::nullopt;
  if (!queries || !transposed || !values || (nodes.bias && !bias))
    return unjudged("its tensors do not broadcast to its output");
  std::vector<double> by_key(transposed->size());
  for (Index s = 0; s < samples; ++s)
    for (Index d = 0; d < width; ++d)
      for (Index j = 0; j < keys; ++j)
        by_key[static_cast<std::size_t>((s * keys + j) * width + d)] =
            (*transposed)[static_cast<std::size_t>((s * width + d) * keys + j)];

  const Format format = graph::format_of(got.type);
  const DType type = dtype_of(format);
  Problem problem;
  problem.b = samples;
  problem.lq = rows;
  problem.lk = keys;
  problem.d = width;
  problem.dv = v.shape.back();
  problem.dtype = format;
  problem.scale = scale;
  Inputs inputs;
  inputs.scale = scale;
  inputs.q = packed_tensor(*queries, type, std::array{samples, Index{1}, rows, width});
  inputs.k = packed_tensor(by_key, type, std::array{samples, Index{1}, keys, width});
  inputs.v = packed_tensor(*values, type, std::array{samples, Index{1}, keys, problem.dv});
  if (bias) {
    const Array& given = numbers.at(*nodes.bias);
    if (!graph::is_floating(given.type)) return unjudged("its bias is of integers");
    inputs.bias =
        packed_tensor(*bias, dtype_of(graph::format_of(given.type)), std::array{samples, Index{1}, rows, keys});
  }
  if (nodes.choice) {
    const auto flags = broadcast_numbers(numbers.at(nodes.choice->flags), like(rows, keys));
    const Array& closed = numbers.at(nodes.choice->closed);
    if (!flags || closed.floats.size() != 1) return unjudged("its mask does not broadcast to its output");
    inputs.keep = packed_tensor(kept(*nodes.choice, problem, *flags, closed.floats[0], *queries, by_key, bias),
                                DType::boolean, std::array{samples, Index{1}, rows, keys});
  }
  SubgraphVerdict told = verdict_on(precision, problem, inputs, graph::format_of(numbers.at(nodes.softmax_input).type),
                                    packed_tensor(got.floats, type, std::array{samples, Index{1}, rows, problem.dv}));
  if (const auto& evidence = told.verdict.evidence)
    told.element = (evidence->index[0] * rows + evidence->index[2]) * problem.dv + evidence->index[3];
  return told;
}

class Recognition {
 public:
  explicit Recognition(const Connections& graph) : graph_(graph) {}

  [[nodiscard]] std::unique_ptr<Subgraph> attention(const Node& product) const {
    Nodes nodes;
    int weights = product.inputs[0];
    if (!pass_casts(weights, nodes)) return nullptr;
    const Node* const softmax = graph_.giver(weights, "Softmax");
    // Before version 13 all axes from the named one on were one.
    if (softmax == nullptr || graph_.model().opset < 13) return nullptr;
    nodes.softmax_axis = graph::integer_of(*softmax, "axis", -1);
    nodes.v = product.inputs[1];
    nodes.softmax_input = softmax->inputs[0];
    if (!scores(softmax->inputs[0], nodes)) return nullptr;
    std::vector<int> begins, judged_by{nodes.q, nodes.k_transposed, nodes.v, nodes.softmax_input};
    for (const int value : {nodes.q, nodes.k_transposed, nodes.v}) begins.push_back(graph_.before_moves(value));
    std::vector<int> others;
    for (const auto* scalings : {&nodes.of_q, &nodes.of_k, &nodes.of_scores})
      for (const Scaling& one : *scalings) others.push_back(one.value);
    if (nodes.bias) others.push_back(*nodes.bias);
    if (nodes.choice) others.insert(others.end(), {nodes.choice->flags, nodes.choice->closed});
    begins.insert(begins.end(), others.begin(), others.end());
    judged_by.insert(judged_by.end(), others.begin(), others.end());
    auto found = std::make_unique<Explicit>(std::move(nodes));
    found->core = found->output = product.outputs[0];
    for (const int value : begins) feed(*found, graph_, value);
    found->judged_by = std::move(judged_by);
    return found;
  }

 private:
  // Goes back over what changes no number but its format. False for a conversion to another kind of numbers.
  bool pass_casts(int& value, Nodes& nodes) const {
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
  [[nodiscard]] bool scores(int value, Nodes& nodes) const {
    if (!pass_casts(value, nodes)) return false;
    if (const Node* const product = graph_.giver(value, "MatMul")) {
      nodes.q = unscaled(product->inputs[0], nodes.of_q);
      nodes.k_transposed = unscaled(product->inputs[1], nodes.of_k);
      return true;
    }
    if (const Node* const where = graph_.giver(value, "Where")) return behind_choice(*where, nodes);
    if (const Node* const sum = graph_.giver(value, "Add")) return behind_bias(*sum, nodes);
    const auto scaling = scaled(value);
    if (!scaling || nodes.of_scores.size() == 2) return false;
    nodes.of_scores.push_back(scaling->second);
    return scores(scaling->first, nodes);
  }

  [[nodiscard]] bool behind_choice(const Node& where, Nodes& nodes) const {
    if (nodes.choice || !nodes.of_scores.empty()) return false;
    for (const bool first : {true, false}) {
      const int scored = where.inputs[first ? 1 : 2], other = where.inputs[first ? 2 : 1];
      Nodes one = nodes;
      one.choice = {where.inputs[0], first, other, nodes.bias.has_value()};
      if (!graph_.may_be_single(other) || !scores(scored, one)) continue;
      nodes = std::move(one);
      return true;
    }
    return false;
  }

  [[nodiscard]] bool behind_bias(const Node& sum, Nodes& nodes) const {
    if (nodes.bias || !nodes.of_scores.empty()) return false;
    for (const bool first : {true, false}) {
      Nodes one = nodes;
      one.bias = sum.inputs[first ? 1 : 0];
      if (!scores(sum.inputs[first ? 0 : 1], one)) continue;
      nodes = std::move(one);
      return true;
    }
    return false;
  }

  // What is scaled, and by what.
  [[nodiscard]] std::optional<std::pair<int, Scaling>> scaled(int value) const {
    if (const Node* const quotient = graph_.giver(value, "Div");
        quotient != nullptr && graph_.may_be_single(quotient->inputs[1]))
      return std::pair(quotient->inputs[0], Scaling{quotient->inputs[1], true});
    const Node* const product = graph_.giver(value, "Mul");
    if (product == nullptr) return std::nullopt;
    for (const bool second : {true, false}) {
      const int scale = product->inputs[second ? 1 : 0];
      if (graph_.may_be_single(scale)) return std::pair(product->inputs[second ? 0 : 1], Scaling{scale, false});
    }
    return std::nullopt;
  }
  [[nodiscard]] int unscaled(int value, std::vector<Scaling>& scalings) const {
    const auto scaling = scaled(value);
    if (!scaling) return value;
    scalings.push_back(scaling->second);
    return scaling->first;
  }

  const Connections& graph_;
};

}  // namespace

std::vector<std::unique_ptr<Subgraph>> subgraphs(const Connections& graph) {
  std::vector<std::unique_ptr<Subgraph>> found;
  for (const Node& node : graph.model().nodes) {
    if (!graph::is_own(node)) continue;
    if (node.op == "Attention") found.push_back(operator_of(graph, node));
    if (node.op == "MatMul")
      if (auto one = Recognition(graph).attention(node)) found.push_back(std::move(one));
  }
  return found;
}

}  // namespace attest::ops::of_attention
