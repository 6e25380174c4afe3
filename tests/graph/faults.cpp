#include "tests/graph/faults.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace attest::graph::test {
namespace {

constexpr std::int64_t f32 = 1, f16 = 10, bf16 = 16;
constexpr std::int64_t end = std::numeric_limits<std::int64_t>::max();

// Rewrites a model: nodes are put in before or after one that is there.
class Edit {
 public:
  explicit Edit(const Model& model) : model(model) {}
  Model model;

  int value(const std::string& name) {
    model.values.push_back(name + "#" + std::to_string(model.values.size()));
    return static_cast<int>(model.values.size()) - 1;
  }
  int constant(Array array) {
    const int number = value("constant");
    model.constants.emplace(number, std::move(array));
    return number;
  }
  int list(std::int64_t one) { return constant(integers(Type::i64, {1}, {one})); }

  // A node before number `at`, which then is one further; gives its result.
  int put(std::size_t& at, const std::string& op, std::vector<int> inputs,
          std::map<std::string, Attribute, std::less<>> attributes = {}) {
    const int result = value(op);
    model.nodes.insert(model.nodes.begin() + static_cast<std::ptrdiff_t>(at),
                       {op, op, "", std::move(inputs), {result}, std::move(attributes)});
    ++at;
    return result;
  }
  int cast(std::size_t& at, int from, std::int64_t to) { return put(at, "Cast", {from}, {{"to", to}}); }
  int slice(std::size_t& at, int from, std::int64_t start, std::int64_t stop) {
    return put(at, "Slice", {from, list(start), list(stop), list(-1)});
  }

  // The first node of an operator that `wanted` holds for.
  std::optional<std::size_t> find(const std::string& op, const std::function<bool(const Node&)>& wanted = {}) const {
    for (std::size_t i = 0; i < model.nodes.size(); ++i)
      if (model.nodes[i].op == op && (!wanted || wanted(model.nodes[i]))) return i;
    return std::nullopt;
  }
  std::optional<int> input(const std::string& name) const {
    for (const Input& one : model.inputs)
      if (one.name == name) return one.value;
    return std::nullopt;
  }
};

bool is_half(const Model& model) {
  return std::any_of(model.inputs.begin(), model.inputs.end(), [](const Input& one) { return one.type == Type::f16; });
}

// Node number `at` with operands in another format; its result, too, unless the operands alone are meant.
void lower(Edit& edit, std::size_t at, std::int64_t to, bool operands_alone) {
  for (std::size_t i = 0; i < edit.model.nodes[at].inputs.size(); ++i) {
    int low = edit.cast(at, edit.model.nodes[at].inputs[i], to);
    if (operands_alone) low = edit.cast(at, low, f32);
    edit.model.nodes[at].inputs[i] = low;
  }
  if (operands_alone) return;
  const int result = edit.model.nodes[at].outputs[0], low = edit.value("low");
  edit.model.nodes[at].outputs[0] = low;
  edit.model.nodes.insert(edit.model.nodes.begin() + static_cast<std::ptrdiff_t>(at) + 1,
                          {"", "Cast", "", {low}, {result}, {{"to", f32}}});
}

std::optional<Model> lowered(const Model& model, const std::string& op, std::int64_t to, bool operands_alone) {
  Edit edit(model);
  const auto at = edit.find(op);
  if (!at || is_half(model)) return std::nullopt;
  lower(edit, *at, to, operands_alone);
  return edit.model;
}

std::optional<Model> mask_off_by_one(const Model& model) {
  Edit edit(model);
  const auto mask = edit.input("mask");
  if (!mask) return std::nullopt;
  std::size_t at = 0;
  const int rolled = edit.put(at, "Concat", {edit.slice(at, *mask, -1, end), edit.slice(at, *mask, 0, -1)},
                              {{"axis", std::int64_t{-1}}});
  for (; at < edit.model.nodes.size(); ++at)
    for (int& value : edit.model.nodes[at].inputs)
      if (value == *mask) value = rolled;
  return edit.model;
}

std::optional<Model> last_key_dropped(const Model& model) {
  Edit edit(model);
  auto at = edit.find("Softmax");
  if (!at) return std::nullopt;
  const int result = edit.model.nodes[*at].outputs[0], all = edit.value("all");
  edit.model.nodes[*at].outputs[0] = all;
  std::size_t next = *at + 1;
  const int kept = edit.slice(next, all, 0, -1), last = edit.slice(next, all, -1, end);
  const int none = edit.put(next, "Sub", {last, last});
  edit.put(next, "Concat", {kept, none}, {{"axis", std::int64_t{-1}}});
  edit.model.nodes[next - 1].outputs[0] = result;
  return edit.model;
}

std::optional<Model> with_scale(const Model& model, const std::function<double(double)>& change) {
  Edit edit(model);
  const auto named = std::find(edit.model.values.begin(), edit.model.values.end(), "scale");
  if (named == edit.model.values.end()) return std::nullopt;
  const auto constant = edit.model.constants.find(static_cast<int>(named - edit.model.values.begin()));
  if (constant == edit.model.constants.end()) return std::nullopt;  // the part lacks it
  Array scale = constant->second.array();
  scale.floats[0] = round_to(format_of(scale.type), change(scale.floats[0]));
  constant->second = scale;
  return edit.model;
}

// mean(x^2) - mean(x)^2, not below 0, for the mean of (x - mean(x))^2.
std::optional<Model> one_pass_variance(const Model& model) {
  Edit edit(model);
  const auto difference = edit.find("Sub", [&edit](const Node& node) {
    return std::any_of(edit.model.nodes.begin(), edit.model.nodes.end(), [&node](const Node& other) {
      return other.op == "ReduceMean" && other.outputs[0] == node.inputs[1];
    });
  });
  if (!difference) return std::nullopt;
  const int x = edit.model.nodes[*difference].inputs[0], mean = edit.model.nodes[*difference].inputs[1];
  std::size_t at = *difference;
  while (at < edit.model.nodes.size() && edit.model.nodes[at].op != "ReduceMean") ++at;
  if (at == edit.model.nodes.size()) return std::nullopt;
  const Node variance = edit.model.nodes[at];
  edit.model.nodes.erase(edit.model.nodes.begin() + static_cast<std::ptrdiff_t>(at));
  const int squares = edit.put(at, "Mul", {x, x});
  const int of_squares = edit.put(at, "ReduceMean", {squares, variance.inputs[1]}, {{"keepdims", std::int64_t{1}}});
  const int square = edit.put(at, "Mul", {mean, mean});
  edit.put(at, "Relu", {edit.put(at, "Sub", {of_squares, square})});
  edit.model.nodes[at - 1].outputs = variance.outputs;
  return edit.model;
}

// The right operand of a product of two computed tensors comes from sample 0.
std::optional<Model> batch_leak(const Model& model) {
  Edit edit(model);
  auto at = edit.find("MatMul", [&edit](const Node& node) { return edit.model.constants.count(node.inputs[1]) == 0; });
  if (!at) return std::nullopt;
  std::size_t here = *at;
  const int first =
      edit.put(here, "Gather", {edit.model.nodes[here].inputs[1], edit.list(0)}, {{"axis", std::int64_t{0}}});
  edit.model.nodes[here].inputs[1] = first;
  return edit.model;
}

// erf(x) by the tanh that GELU is often given.
std::optional<Model> tanh_for_erf(const Model& model) {
  Edit edit(model);
  const auto found = edit.find("Erf");
  if (!found) return std::nullopt;
  std::size_t at = *found;
  const int x = edit.model.nodes[at].inputs[0], result = edit.model.nodes[at].outputs[0];
  edit.model.nodes.erase(edit.model.nodes.begin() + static_cast<std::ptrdiff_t>(at));
  const auto number = [&edit](double v) { return edit.constant(floats(Type::f32, {}, {round_to(Format::f32, v)})); };
  const double root = 2 / std::sqrt(std::acos(-1.0));
  const int cube = edit.put(at, "Mul", {edit.put(at, "Mul", {x, x}), x});
  const int bent = edit.put(at, "Mul", {cube, number(0.044715 * 2 * root)});
  const int straight = edit.put(at, "Mul", {x, number(root)});
  edit.put(at, "Tanh", {edit.put(at, "Add", {bent, straight})});
  edit.model.nodes[at - 1].outputs[0] = result;
  return edit.model;
}

}  // namespace

const std::vector<Fault>& faults() {
  static const std::vector<Fault> list{
      {"product-f16", [](const Model& m) { return lowered(m, "MatMul", f16, false); }},
      {"product-bf16-operands", [](const Model& m) { return lowered(m, "MatMul", bf16, true); }},
      {"softmax-f16", [](const Model& m) { return lowered(m, "Softmax", f16, false); }},
      {"norm-f16", [](const Model& m) { return lowered(m, "LayerNormalization", f16, false); }},
      {"mask-off-by-one", mask_off_by_one},
      {"last-key-dropped", last_key_dropped},
      {"scale-missing", [](const Model& m) { return with_scale(m, [](double) { return 1.0; }); }},
      {"scale-rounded", [](const Model& m) { return with_scale(m, [](double s) { return s * (1 + 0x1p-9); }); }},
      {"one-pass-variance", one_pass_variance},
      {"batch-leak", batch_leak},
      {"tanh-for-erf", tanh_for_erf},
  };
  return list;
}

}  // namespace attest::graph::test
