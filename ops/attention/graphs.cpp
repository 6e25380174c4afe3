// Attention as graphs of ONNX operators, for exports: spelt out in three ways, and as one node.
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "core/inputs.hpp"
#include "ops/attention/parts.hpp"

namespace attest::ops::of_attention {
namespace {

using graph::Array;
using graph::Type;

constexpr Index opset = 23;  // the first that has Attention

Type type_of(DType type) { return static_cast<Type>(named_type(type)); }

Array array_of(const Tensor& tensor, Type type) {
  std::vector<Index> shape(tensor.shape().begin(), tensor.shape().end());
  Array array = graph::zeros(type, shape);
  std::size_t at = 0;
  for_each_index(tensor.shape(), [&](Index a, Index b, Index c, Index d) {
    array.floats[at++] = round_to(format_of(type), tensor.at(a, b, c, d));
  });
  return array;
}

// A model in the making: values by the number that each gets.
class Builder {
 public:
  Builder() { model_.opset = opset; }

  int input(std::string name, Array array) {
    const int value = named(name);
    graph::Input input{name, array.type, {}, value};
    for (const Index length : array.shape) input.shape.push_back({length, {}});
    model_.inputs.push_back(std::move(input));
    feeds_.emplace(std::move(name), std::move(array));
    return value;
  }
  int constant(std::string name, Array array) {
    const int value = named(std::move(name));
    model_.constants.emplace(value, std::move(array));
    return value;
  }
  int number(std::string name, Type type, double x) {
    return constant(std::move(name), graph::floats(type, {}, {round_to(format_of(type), x)}));
  }
  int indices(std::string name, std::vector<Index> values) {
    std::vector<std::int64_t> wide(values.begin(), values.end());
    return constant(std::move(name), graph::integers(Type::i64, {std::ssize(values)}, std::move(wide)));
  }
  int node(const std::string& op, std::vector<int> inputs, std::string name,
           std::map<std::string, graph::Attribute, std::less<>> attributes = {}) {
    const int value = named(name);
    model_.nodes.push_back({std::move(name), op, "", std::move(inputs), {value}, std::move(attributes)});
    return value;
  }
  NamedGraph finished(std::string name, int output, Type type) {
    model_.outputs.push_back({model_.values[static_cast<std::size_t>(output)], output, type, 4});
    return {std::move(name), std::move(model_), std::move(feeds_)};
  }

 private:
  int named(std::string name) {
    model_.values.push_back(std::move(name));
    return static_cast<int>(model_.values.size()) - 1;
  }
  graph::Model model_;
  graph::Feeds feeds_;
};

// The keys that each query sees. `masks`: some query does not see every key.
struct Mask {
  Array open;
  bool masks = false;
  bool empty_rows = false;
};

Mask mask_of(const Problem& p, const Exchange& call) {
  Mask mask{graph::zeros(Type::boolean, {p.b, p.hq, p.lq, p.lk}), false, false};
  const Tensor *const keep = input_of(call, "keep"), *const lengths = input_of(call, "kv_lengths");
  std::size_t at = 0;
  for (Index b = 0; b < p.b; ++b) {
    const Index length = lengths != nullptr ? static_cast<Index>(lengths->at(b)) : p.lk;
    for (Index h = 0; h < p.hq; ++h)
      for (Index i = 0; i < p.lq; ++i) {
        const KeyRange range = key_range(p, i, p.lq, length);
        bool any = false;
        for (Index j = 0; j < p.lk; ++j) {
          const bool open = j >= range.first && j < range.last && (keep == nullptr || keep->at(b, h, i, j) != 0);
          mask.open.integers[at++] = open ? 1 : 0;
          any = any || open;
          mask.masks = mask.masks || !open;
        }
        mask.empty_rows = mask.empty_rows || !any;
      }
  }
  return mask;
}

struct Parts {
  const Exchange& call;
  const Problem& p;
  const Contract& contract;
  Type type;
  double scale;
  Mask mask;

  [[nodiscard]] const Tensor* input(std::string_view name) const { return input_of(call, name); }
};

enum class ScaleAt : std::uint8_t { queries, scores, both };

// Each head of keys or values as often as there are heads of queries that read it.
int repeated(Builder& build, int value, const std::string& name, const Problem& p, Index width) {
  if (p.hq == p.hkv) return value;
  const Index group = p.hq / p.hkv;
  const int apart = build.node("Unsqueeze", {value, build.indices(name + "_axis", {2})}, name + "_apart");
  const int wide =
      build.node("Expand", {apart, build.indices(name + "_times", {p.b, p.hkv, group, p.lk, width})}, name + "_wide");
  return build.node("Reshape", {wide, build.indices(name + "_shape", {p.b, p.hq, p.lk, width})}, name + "_heads");
}

NamedGraph spelt_out(const Parts& of, ScaleAt placement) {
  const Problem& p = of.p;
  Builder build;
  const auto given = [&](const char* name) { return build.input(name, array_of(*of.input(name), of.type)); };
  int q = given("q");
  const int keys = given("k"), values = given("v");
  int k = build.node("Transpose", {repeated(build, keys, "k", p, p.d)}, "k_transposed",
                     {{"perm", std::vector<std::int64_t>{0, 1, 3, 2}}});
  if (placement == ScaleAt::queries) q = build.node("Mul", {q, build.number("scale", of.type, of.scale)}, "q_scaled");
  if (placement == ScaleAt::both) {
    const double root = std::sqrt(std::fabs(of.scale));
    q = build.node("Mul", {q, build.number("q_root", of.type, of.scale < 0 ? -root : root)}, "q_scaled");
    k = build.node("Mul", {k, build.number("k_root", of.type, root)}, "k_scaled");
  }
  int s = build.node("MatMul", {q, k}, "scores");
  if (placement == ScaleAt::scores) s = build.node("Mul", {s, build.number("scale", of.type, of.scale)}, "scaled");
  const auto cap = [&] {
    if (!(p.softcap > 0)) return;
    const int c = build.number("softcap", of.type, p.softcap);
    s = build.node("Mul", {build.node("Tanh", {build.node("Div", {s, c}, "uncapped")}, "tanh"), c}, "capped");
  };
  if (of.contract.softcap_before_bias) cap();
  if (of.input("bias") != nullptr) s = build.node("Add", {s, given("bias")}, "biased");
  if (!of.contract.softcap_before_bias) cap();
  // The lowest number of the type closes a key as -inf does, but that a row without keys has weights, which then become
  // 0 or their mean.
  const bool zeros = of.mask.empty_rows && of.contract.empty_row == EmptyRow::zero;
  const bool mean = of.mask.empty_rows && of.contract.empty_row != EmptyRow::nan && !zeros;
  const int open = of.mask.masks ? build.input("open", of.mask.open) : -1;
  if (of.mask.masks) {
    const double closed =
        zeros || mean ? -largest_finite(format_of(of.type)) : -std::numeric_limits<double>::infinity();
    s = build.node("Where", {open, s, build.number("closed", of.type, closed)}, "masked");
  }
  int weights = build.node("Softmax", {s}, "weights", {{"axis", std::int64_t{-1}}});
  if (zeros) weights = build.node("Where", {open, weights, build.number("none", of.type, 0)}, "weights_of_open_keys");
  const int out = build.node("MatMul", {weights, repeated(build, values, "v", p, p.dv)}, "out");
  constexpr const char* names[] = {"explicit-queries", "explicit-scores", "explicit-both"};
  return build.finished(names[static_cast<int>(placement)], out, of.type);
}

NamedGraph one_node(const Parts& of) {
  Builder build;
  std::vector<int> inputs;
  for (const char* name : {"q", "k", "v"}) inputs.push_back(build.input(name, array_of(*of.input(name), of.type)));
  const Tensor* const bias = of.input("bias");
  if (bias != nullptr) {  // a mask may be of numbers or of booleans: closed keys get -inf
    Array sum = array_of(*bias, of.type);
    for (std::size_t i = 0; i < sum.floats.size(); ++i)
      if (of.mask.open.integers[i] == 0) sum.floats[i] = -std::numeric_limits<double>::infinity();
    inputs.push_back(build.input("attn_mask", std::move(sum)));
  } else if (of.mask.masks) {
    inputs.push_back(build.input("attn_mask", of.mask.open));
  }
  std::map<std::string, graph::Attribute, std::less<>> attributes{{"scale", of.scale}};
  if (of.p.softcap > 0) attributes.emplace("softcap", of.p.softcap);
  const int out = build.node("Attention", std::move(inputs), "out", std::move(attributes));
  return build.finished("node", out, of.type);
}

}  // namespace

std::vector<NamedGraph> graphs(const Exchange& exchange, const Contract& contract) {
  const Problem& p = exchange.problem().as<Problem>();
  const Parts parts{
      exchange, p, contract, type_of(dtype_of(p.dtype)), exchange.numbers().front().second, mask_of(p, exchange)};
  if (parts.mask.empty_rows && contract.empty_row == EmptyRow::mean_v && parts.input("kv_lengths") != nullptr)
    throw usage_error(
        "some rows have no key, and are to be the mean of fewer values than there are: no explicit graph of a few "
        "nodes says so");
  std::vector<NamedGraph> all;
  for (const ScaleAt placement : {ScaleAt::queries, ScaleAt::scores, ScaleAt::both})
    all.push_back(spelt_out(parts, placement));
  // The node caps before it adds, and says of rows without keys that they are 0 (of opset 23 as it was corrected in
  // ONNX 1.23).
  const bool same_order = contract.softcap_before_bias || !(p.softcap > 0) || parts.input("bias") == nullptr;
  const bool same_rows = !parts.mask.empty_rows || contract.empty_row == EmptyRow::zero;
  if (same_order && same_rows) all.push_back(one_node(parts));
  return all;
}

}  // namespace attest::ops::of_attention
