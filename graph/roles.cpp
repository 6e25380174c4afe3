#include "graph/roles.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string_view>

#include "core/error.hpp"
#include "graph/connections.hpp"

namespace attest::graph {
namespace {

bool is_one_of(std::string_view op, std::initializer_list<std::string_view> ops) {
  return std::find(ops.begin(), ops.end(), op) != ops.end();
}

// Operators whose result has the numbers of their first input (of Concat, of any).
bool moves(std::string_view op) {
  return is_one_of(
      op, {"Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Slice", "Expand", "Split", "Concat",
           "Trilu", "SequenceConstruct", "SequenceInsert", "SequenceAt", "SplitToSequence", "ConcatFromSequence"});
}
bool compares(std::string_view op) {
  return is_one_of(op, {"Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal"});
}

class Uses {
 public:
  explicit Uses(const Model& model) : model_(model), readers_(model.values.size()) {
    for (const Node& node : model.nodes)
      for (std::size_t i = 0; i < node.inputs.size(); ++i)
        if (node.inputs[i] >= 0) readers_[static_cast<std::size_t>(node.inputs[i])].push_back({&node, i});
  }

  [[nodiscard]] Use of(const Input& input) {
    if (input.type == Type::boolean) return {Role::flags, 0};
    if (is_floating(input.type)) return {reaches_softmax(input.value) ? Role::addend : Role::floats, 0};
    found_ = {};
    visited_.clear();
    follow(input, input.value);
    if (found_.ids) return {Role::ids, *found_.ids};
    if (found_.lengths) return {Role::lengths, 0};
    if (found_.flags) return {Role::flags, 0};
    if (found_.numbers) return {Role::numbers, 0, found_.divisor};
    throw usage_error(fmt::format(
        "input '{}' ({}): the graph does not show what its numbers may be; attest draws rows of a constant table, 0 "
        "and 1, lengths, and numbers that are computed with (attest.toml can say it, [graph] \"role.{}\" = "
        "\"ids:N\", flags, lengths or numbers)",
        input.name, name(input.type), input.name));
  }

 private:
  struct Reader {
    const Node* node;
    std::size_t input;
  };
  struct Found {
    std::optional<Index> ids;
    bool lengths = false, flags = false, numbers = false, divisor = false;
  };

  // Integers: through what moves them or does arithmetic, until they show what they are.
  void follow(const Input& input, int value) {
    if (!visited_.insert(value).second) return;
    // The number is given as it is, or after arithmetic: any will do.
    for (const Output& output : model_.outputs) found_.numbers = found_.numbers || output.value == value;
    for (const Reader& reader : readers_[static_cast<std::size_t>(value)]) {
      const Node& node = *reader.node;
      const bool shapes = (reader.input > 0 && (moves(node.op) && node.op != "Concat")) || node.op == "Range" ||
                          node.op == "ConstantOfShape";
      if (shapes)
        throw usage_error(fmt::format("input '{}' ({}) sets shapes within the graph: make it a constant", input.name,
                                      name(input.type)));
      if (const auto table = table_of(node, reader.input)) {
        const Index rows = rows_of_table(input, node, node.inputs[*table]);
        found_.ids = std::min(found_.ids.value_or(rows), rows);
      } else if (compares(node.op)) {
        (is_number(node.inputs[1 - reader.input]) ? found_.flags : found_.lengths) = true;
      } else if (is_mask(node, reader.input)) {
        (input.shape.size() == 1 ? found_.lengths : found_.flags) = true;
      } else if (node.op == "Cast" && !gives_integers(node)) {
        found_.flags = true;
      } else if (is_one_of(node.op, {"DequantizeLinear", "MatMulInteger", "ConvInteger"})) {
        found_.numbers = true;
      } else if (moves(node.op) || node.op == "Cast" || node.op == "Gather" ||
                 is_one_of(node.op, {"Add", "Sub", "Mul", "Div", "Mod", "Pow", "Max", "Min", "Neg", "Abs", "Clip",
                                     "Relu", "Sign", "Tile", "ReduceSum", "ReduceMax", "ReduceMin", "Where"})) {
        found_.divisor = found_.divisor || (is_one_of(node.op, {"Div", "Mod"}) && reader.input == 1);
        for (const int result : node.outputs)
          if (result >= 0) follow(input, result);
      }
    }
  }

  [[nodiscard]] static bool gives_integers(const Node& node) {
    const auto type = type_numbered(integer_of(node, "to", 0));
    return type && !is_floating(*type) && !is_code(*type) && *type != Type::boolean;
  }

  // The input whose rows the numbers of input `ids` name, where a node looks them up.
  [[nodiscard]] static std::optional<std::size_t> table_of(const Node& node, std::size_t ids) {
    struct Lookup {
      std::string_view op, domain;
      std::size_t ids, table;
    };
    constexpr Lookup lookups[] = {{"Gather", "", 1, 0},
                                  {"RotaryEmbedding", "", 3, 1},
                                  {"RotaryEmbedding", "com.microsoft", 1, 2},
                                  {"EmbedLayerNormalization", "com.microsoft", 0, 2},
                                  {"EmbedLayerNormalization", "com.microsoft", 1, 4},
                                  {"EmbedLayerNormalization", "com.microsoft", 8, 3}};
    for (const Lookup& one : lookups)
      if (node.op == one.op && node.domain == one.domain && ids == one.ids) return one.table;
    return std::nullopt;
  }
  // Tells if an input holds flags of keys, or their number.
  [[nodiscard]] static bool is_mask(const Node& node, std::size_t input) {
    if (node.domain != "com.microsoft") return false;
    return (node.op == "Attention" && input == 3) || (node.op == "MultiHeadAttention" && input == 4) ||
           (node.op == "EmbedLayerNormalization" && input == 7) || (node.op == "GroupQueryAttention" && input == 5);
  }

  // One constant number, which a mask or an id is compared with. Positions are more.
  [[nodiscard]] bool is_number(int value) const {
    const auto constant = model_.constants.find(value);
    if (constant != model_.constants.end()) return constant->second.size() == 1;
    return std::any_of(model_.nodes.begin(), model_.nodes.end(),
                       [value](const Node& node) { return node.op == "Constant" && node.outputs.front() == value; });
  }

  [[nodiscard]] Index rows_of_table(const Input& input, const Node& gather, int looked_up) const {
    const auto table = model_.constants.find(looked_up);
    const auto axis = gather.attributes.find("axis");
    const auto* const stated = axis == gather.attributes.end() ? nullptr : std::get_if<std::int64_t>(&axis->second);
    const Index at = stated == nullptr ? 0 : *stated;
    if (table == model_.constants.end() || at < -table->second.rank() || at >= table->second.rank())
      throw usage_error(fmt::format("input '{}' ({}) looks up '{}', whose length attest does not know", input.name,
                                    name(input.type),
                                    looked_up < 0 ? "" : model_.values[static_cast<std::size_t>(looked_up)]));
    return table->second.shape[static_cast<std::size_t>(at < 0 ? at + table->second.rank() : at)];
  }

  // Floats: moved, added to something, and from there to a Softmax by further masks alone.
  [[nodiscard]] bool reaches_softmax(int from) const {
    std::vector<std::pair<int, bool>> open{{from, false}};
    std::set<std::pair<int, bool>> seen;
    while (!open.empty()) {
      const auto [value, added] = open.back();
      open.pop_back();
      if (!seen.insert({value, added}).second) continue;
      for (const Reader& reader : readers_[static_cast<std::size_t>(value)]) {
        const Node& node = *reader.node;
        if (node.op == "Softmax" && added) return true;
        const bool is_own = node.domain.empty();
        if (node.op == "Attention" && reader.input == (is_own ? 3 : 5)) return true;
        if (node.op == "MultiHeadAttention" && reader.input == 5) return true;
        const bool goes_on = node.op == "Add" || node.op == "Cast" || (node.op == "Where" && reader.input > 0) ||
                             (moves(node.op) && (reader.input == 0 || node.op == "Concat"));
        if (!goes_on) continue;
        for (const int result : node.outputs)
          if (result >= 0) open.emplace_back(result, added || node.op == "Add");
      }
    }
    return false;
  }

  const Model& model_;
  std::vector<std::vector<Reader>> readers_;
  Found found_;
  std::set<int> visited_;
};

void check_said(const Input& input, const Use& use) {
  const bool of_floats = use.role == Role::floats || use.role == Role::addend;
  if (of_floats != is_floating(input.type) || (input.type == Type::boolean && use.role != Role::flags))
    throw usage_error(fmt::format("role.{}: numbers of type {} cannot stand for that", input.name, name(input.type)));
}

}  // namespace

std::vector<Use> uses_of_inputs(const Program& program, const std::map<std::string, Use, std::less<>>& said,
                                bool handed_over) {
  const Model& model = program.model();
  for (const auto& [input, use] : said)
    if (std::ranges::find(model.inputs, input, &Input::name) == model.inputs.end())
      throw usage_error(fmt::format("role.{}: the model has no such input", input));
  Uses uses(model);
  std::vector<Use> all;
  for (const Input& input : model.inputs) {
    if (const auto given = said.find(input.name); given != said.end()) {
      check_said(input, given->second);
      all.push_back(given->second);
      continue;
    }
    try {
      all.push_back(uses.of(input));
    } catch (const Error&) {
      if (!handed_over) throw;
      all.push_back({Role::given});
    }
    if (all.back().role == Role::ids && all.back().count < 1)
      throw usage_error(fmt::format("input '{}' looks up a table without rows", input.name));
  }
  return all;
}

}  // namespace attest::graph
