#include "ops/mha/subgraph.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string_view>

#include "ops/attention/parts.hpp"
#include "ops/mha/parts.hpp"

namespace attest::ops::of_mha {
namespace {

using graph::Array;
using graph::Connections;
using graph::Node;
using of_attention::Scaling;

std::vector<int> values_of(const Projection& one) {
  std::vector<int> values{one.x, one.weight, one.result};
  if (one.bias >= 0) values.push_back(one.bias);
  return values;
}

class Whole final : public Subgraph {
 public:
  explicit Whole(Block block) : block_(std::move(block)) {}

  [[nodiscard]] SubgraphVerdict judge(const NumbersOfValues& numbers, const Array& got,
                                      const graph::Precision& precision) const override {
    return verdict_on(block_, numbers, got, precision);
  }

 private:
  Block block_;
};

// Goes back over nodes that move numbers.
class Path {
 public:
  Path(const Connections& graph, int to) : graph_(graph), to_(to), value_(to) {}

  [[nodiscard]] int value() const noexcept { return value_; }

  // Goes back over one more node; false where there is none.
  bool step() {
    const Node* const node = graph_.giver(value_);
    if (node == nullptr || !graph::is_own(*node) || !moves(*node)) return false;
    take(*node, node->inputs[0]);
    return true;
  }
  // Goes back over a node that multiplies all numbers by one.
  void step_over(int scaled) { take({"", "Identity", "", {scaled}, {value_}, {}}, scaled); }

  // The moves from the value that it has reached.
  [[nodiscard]] Moves moves() const {
    Moves made;
    made.from = value_;
    made.to = to_;
    made.model.opset = graph_.model().opset;
    std::map<int, int> numbers;
    const auto number = [&](int value) {
      if (value < 0) return value;
      const auto [found, is_new] = numbers.emplace(value, static_cast<int>(numbers.size()));
      if (is_new) made.model.values.push_back(graph_.model().values[static_cast<std::size_t>(value)]);
      return found->second;
    };
    made.model.inputs.push_back({"places", graph::Type::i64, {}, number(value_)});
    for (auto node = nodes_.rbegin(); node != nodes_.rend(); ++node) {
      Node copy = *node;
      for (std::size_t i = 1; i < copy.inputs.size(); ++i)
        if (copy.inputs[i] >= 0 && !numbers.contains(copy.inputs[i]))
          made.operands.emplace_back(copy.inputs[i], number(copy.inputs[i]));
      for (auto* values : {&copy.inputs, &copy.outputs})
        for (int& value : *values) value = number(value);
      made.model.nodes.push_back(std::move(copy));
    }
    made.model.outputs.push_back({"moved", number(to_)});
    return made;
  }

 private:
  // A Gather that picks, of an axis, what the file names: one of three packed projections.
  [[nodiscard]] bool moves(const Node& node) const {
    constexpr std::array always{
        std::string_view("Transpose"), std::string_view("Reshape"),  std::string_view("Squeeze"),
        std::string_view("Unsqueeze"), std::string_view("Identity"), std::string_view("Flatten"),
        std::string_view("Split"),     std::string_view("Slice"),    std::string_view("Expand")};
    if (std::ranges::find(always, node.op) != always.end()) return true;
    return node.op == "Gather" && graph_.is_constant(node.inputs[1]);
  }
  void take(Node node, int before) {
    nodes_.push_back(std::move(node));
    value_ = before;
  }

  const Connections& graph_;
  int to_, value_;
  std::vector<Node> nodes_;  // the last one first
};

class Search {
 public:
  explicit Search(const Connections& graph) : graph_(graph) {}

  // The block whose last product of matrices this is.
  [[nodiscard]] std::unique_ptr<Subgraph> block(const Node& node) {
    if (node.op != "MatMul" && node.op != "Gemm") return nullptr;
    const auto last = projection(node.outputs[0]);
    if (!last) return nullptr;
    Path path(graph_, last->x);
    while (path.step()) {
    }
    const Node* const core = graph_.giver(path.value());
    if (core == nullptr || !graph::is_own(*core)) return nullptr;
    Block found;
    found.heads = core->outputs[0];
    found.to_out = path.moves();
    int k = -1;
    if (core->op == "MatMul") {
      found.spelt = of_attention::spelt_out(graph_, *core);
      if (!found.spelt) return nullptr;
      k = found.spelt->k_transposed;
    } else if (core->op == "Attention" && found.heads == path.value() && of_attention::is_plain(*core)) {
      found.fused = of_attention::fused_of(*core);
      k = found.fused.k;
    } else {
      return nullptr;
    }
    auto* const of_q = found.spelt ? &found.spelt->of_q : nullptr;
    auto* const of_k = found.spelt ? &found.spelt->of_k : nullptr;
    std::vector<Scaling>* const of_none = nullptr;
    const auto from = [&, this](std::string_view what, int value, auto* scalings, Projection& one, Moves& way) {
      if (projected(value, scalings, one, way)) return true;
      refused_[found.heads] = fmt::format("its {} comes from {}, where a projection is looked for", what,
                                          giver_in_words(graph_, ended_at_));
      return false;
    };
    if (!from("q", found.spelt ? found.spelt->q : found.fused.q, of_q, found.q, found.to_q) ||
        !from("k", k, of_k, found.k, found.to_k) ||
        !from("v", found.spelt ? found.spelt->v : found.fused.v, of_none, found.v, found.to_v))
      return nullptr;
    found.out = with_bias(*last);
    return made(std::move(found), node.outputs[0]);
  }
  // The reason why an attention that gives `heads` stands in no block, though a projection takes these.
  [[nodiscard]] const std::string* why_not(int heads) const {
    const auto found = refused_.find(heads);
    return found == refused_.end() ? nullptr : &found->second;
  }

 private:
  [[nodiscard]] std::optional<Projection> projection(int value) const {
    if (const Node* const product = graph_.giver(value, "MatMul")) {
      if (!graph_.is_constant(product->inputs[1])) return std::nullopt;
      return Projection{value, product->inputs[0], product->inputs[1], -1, false};
    }
    if (const Node* const product = graph_.giver(value, "Gemm")) return of_gemm(*product);
    const Node* const sum = graph_.giver(value, "Add");
    if (sum == nullptr) return std::nullopt;
    for (const bool second : {true, false}) {
      const int bias = sum->inputs[second ? 1 : 0], product = sum->inputs[second ? 0 : 1];
      if (graph_.giver(product, "MatMul") == nullptr || !may_be_bias(bias)) continue;
      auto found = projection(product);
      if (!found) continue;
      found->result = value;
      found->bias = bias;
      return found;
    }
    return std::nullopt;
  }

  [[nodiscard]] std::optional<Projection> of_gemm(const Node& product) const {
    const auto is_one = [&product](std::string_view factor) {
      const auto found = product.attributes.find(factor);
      if (found == product.attributes.end()) return true;
      const auto* const number = std::get_if<double>(&found->second);
      return number != nullptr && *number == 1;
    };
    const int bias = product.inputs.size() > 2 ? product.inputs[2] : -1;
    if (!is_one("alpha") || !is_one("beta") || graph::integer_of(product, "transA", 0) != 0 ||
        !graph_.is_constant(product.inputs[1]) || (bias >= 0 && !may_be_bias(bias)))
      return std::nullopt;
    return Projection{product.outputs[0], product.inputs[0], product.inputs[1], bias,
                      graph::integer_of(product, "transB", 0) != 0};
  }

  // Tells whether the value may be a bias: a parameter, a number for each column or one for all. The shape of a value
  // computed from parameters shows when it is judged.
  [[nodiscard]] bool may_be_bias(int value) const {
    if (!graph_.is_constant(value)) return false;
    const auto* const known = graph_.constant(value);
    return known == nullptr || known->size() == 1 || known->shape.back() == known->size();
  }

  // The projection with its bias, where the addition is the only reader.
  [[nodiscard]] Projection with_bias(const Projection& last) const {
    if (last.bias >= 0) return last;
    const Node* const sum = graph_.only_reader(last.result, "Add");
    return sum == nullptr ? last : projection(sum->outputs[0]).value_or(last);
  }

  // Goes back to the projection that is moved to `value`, over one scale at most where `scalings` are kept.
  [[nodiscard]] bool projected(int value, std::vector<Scaling>* scalings, Projection& found, Moves& way) {
    Path path(graph_, value);
    while (true) {
      if (const auto one = projection(path.value())) {
        found = *one;
        way = path.moves();
        return true;
      }
      if (path.step()) continue;
      const auto scaling = scalings == nullptr ? std::nullopt : of_attention::scaled(graph_, path.value());
      ended_at_ = path.value();
      if (!scaling || !scalings->empty()) return false;
      scalings->push_back(scaling->second);
      path.step_over(scaling->first);
    }
  }

  [[nodiscard]] std::unique_ptr<Subgraph> made(Block block, int core) const {
    std::vector<int> begins;
    for (const Projection* one : {&block.q, &block.k, &block.v}) begins.push_back(graph_.before_moves(one->x));
    if (block.spelt) {
      for (const int value : of_attention::beside(*block.spelt)) begins.push_back(value);
    } else if (block.fused.mask >= 0) {
      begins.push_back(block.fused.mask);
    }
    std::vector<int> operands;
    for (const Moves* moves : {&block.to_q, &block.to_k, &block.to_v, &block.to_out})
      for (const auto& [value, own] : moves->operands) operands.push_back(value);
    const int output = block.out.result, inner = block.heads;
    std::vector<int> values = judged_by(block);
    auto found = std::make_unique<Whole>(std::move(block));
    found->core = core;
    found->inner = inner;
    found->output = output;
    for (const int value : begins) feed(*found, graph_, value);
    // Shapes that are made of what the part holds anyhow are made there.
    std::set<int> inside(found->fed.begin(), found->fed.end());
    for (const int value : operands)
      if (!is_made_of(value, inside)) feed(*found, graph_, value);
    found->judged_by = std::move(values);
    return found;
  }

  // Tells whether `value` hangs on constants and on what stands between `inside` and it, and on no other input.
  [[nodiscard]] bool is_made_of(int value, std::set<int>& inside) const {
    if (value < 0 || graph_.is_constant(value) || inside.contains(value)) return true;
    const Node* const node = graph_.giver(value);
    if (node == nullptr || !std::ranges::all_of(node->inputs, [&](int one) { return is_made_of(one, inside); }))
      return false;
    inside.insert(node->outputs.begin(), node->outputs.end());
    return true;
  }

  const Connections& graph_;
  int ended_at_ = -1;                   // value that ended the last way back to a projection
  std::map<int, std::string> refused_;  // reasons by the value that the attention gives
};

}  // namespace

std::vector<int> judged_by(const Block& block) {
  std::vector<int> values{block.heads};
  for (const Projection* one : {&block.q, &block.k, &block.v, &block.out}) {
    const std::vector<int> of_one = values_of(*one);
    values.insert(values.end(), of_one.begin(), of_one.end());
  }
  for (const Moves* moves : {&block.to_q, &block.to_k, &block.to_v, &block.to_out})
    for (const auto& [value, own] : moves->operands) values.push_back(value);
  if (block.spelt) {
    values.insert(values.end(),
                  {block.spelt->q, block.spelt->k_transposed, block.spelt->v, block.spelt->softmax_input});
    const std::vector<int> others = of_attention::beside(*block.spelt);
    values.insert(values.end(), others.begin(), others.end());
  } else {
    values.insert(values.end(), {block.fused.q, block.fused.k, block.fused.v});
    if (block.fused.mask >= 0) values.push_back(block.fused.mask);
  }
  return values;
}

std::vector<std::unique_ptr<Subgraph>> subgraphs(const Connections& graph) {
  std::vector<std::unique_ptr<Subgraph>> found;
  Search search(graph);
  for (const Node& node : graph.model().nodes)
    if (graph::is_own(node))
      if (auto one = search.block(node)) found.push_back(std::move(one));
  return found;
}

std::vector<Unrecognised> unrecognised(const Connections& graph) {
  Search search(graph);
  std::set<int> within;  // values that attentions of blocks give
  for (const Node& node : graph.model().nodes)
    if (graph::is_own(node))
      if (const auto one = search.block(node)) within.insert(one->inner);
  std::vector<Unrecognised> all;
  for (const auto& attention : of_attention::subgraphs(graph)) {
    if (within.contains(attention->output)) continue;
    const std::string* const why = search.why_not(attention->output);
    all.push_back({attention->output, why != nullptr ? *why : "no projection takes its heads"});
  }
  return all;
}

}  // namespace attest::ops::of_mha
