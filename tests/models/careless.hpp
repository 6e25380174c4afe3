#pragma once
#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <variant>

#include "core/rng.hpp"
#include "graph/connections.hpp"
#include "graph/emulated.hpp"
#include "graph/raw.hpp"
#include "models/runtime.hpp"

namespace attest::models::test {

// A runtime that conforms, in some careless way.
class Careless final : public Runtime {
 public:
  Careless(const graph::Careless& how, graph::Precision precision)
      : arithmetic_(graph::careless(how)), precision_(std::move(precision)) {}
  [[nodiscard]] const RuntimeInfo& info() const noexcept override { return info_; }
  Answer run(const Part& part, const Build&, const graph::Feeds& feeds, std::size_t, Freshness) override {
    return {{}, results_by(*part.program, feeds, *arithmetic_, precision_)};
  }

 private:
  RuntimeInfo info_{"careless", "1", {"only"}, {}};
  std::unique_ptr<graph::Arithmetic> arithmetic_;
  graph::Precision precision_;
};

// Tells whether numbers of 16 bits come in.
inline bool is_narrow(const graph::Model& model) {
  return std::ranges::any_of(model.inputs, [](const graph::Input& input) {
    return graph::is_floating(input.type) && graph::width_of(input.type) == 16;
  });
}

// A graph of 16 bits as a runtime has it that computes in f32 and stores some results in their own type: those of every
// node of which a coin says so.
inline graph::Model stored_at_times(const graph::Model& from, std::uint64_t seed) {
  using graph::Array, graph::Type;
  graph::Model model;
  model.opset = from.opset;
  model.values = from.values;
  std::optional<Type> narrow;
  const auto widened = [&narrow](Array array) {
    if (graph::is_floating(array.type) && graph::width_of(array.type) == 16) {
      narrow = array.type;
      array.type = Type::f32;
    }
    return array;
  };
  const auto value = [&model] {
    model.values.push_back("m" + std::to_string(model.values.size()));
    return static_cast<int>(model.values.size()) - 1;
  };
  const auto cast = [&model](int of, int to, std::int64_t type) {
    model.nodes.push_back({"", "Cast", "", {of}, {to}, {{"to", type}}});
  };
  constexpr std::int64_t f32 = 1, f16 = 10, bf16 = 16;
  for (graph::Input input : from.inputs) {
    if (graph::is_floating(input.type) && graph::width_of(input.type) == 16) {
      narrow = input.type;
      const int own = input.value;
      input.value = value();
      cast(input.value, own, f32);
    }
    model.inputs.push_back(std::move(input));
  }
  for (const auto& [constant, array] : from.constants) model.constants.emplace(constant, widened(array.array()));
  const std::int64_t own = narrow == Type::bf16 ? bf16 : f16;
  // Shapes are no results that are rounded.
  std::vector<bool> whole(from.values.size(), false);
  const auto mark = [&whole](int one) { return whole[static_cast<std::size_t>(one)] = true; };
  for (const auto& [constant, array] : from.constants)
    if (!graph::is_floating(array.type)) mark(constant);
  for (std::size_t n = 0; n < from.nodes.size(); ++n) {
    graph::Node node = from.nodes[n];
    for (auto& [name, attribute] : node.attributes)
      if (auto* const array = std::get_if<graph::Stored>(&attribute)) *array = widened(array->array());
    if (node.op == "Cast" && graph::integer_of(node, "to", 0) == own) node.attributes.at("to") = f32;
    bool all_whole = !node.inputs.empty();
    for (const int one : node.inputs) all_whole = all_whole && one >= 0 && whole[static_cast<std::size_t>(one)];
    if (const auto given = node.attributes.find("value"); node.op == "Constant" && given != node.attributes.end())
      if (const auto* const array = std::get_if<graph::Stored>(&given->second))
        all_whole = !graph::is_floating(array->type);
    if (all_whole || node.op == "Shape")
      for (const int one : node.outputs) mark(one);
    const bool is_float =
        !all_whole && (node.op == "MatMul" || node.op == "Gemm" || node.op == "Add" || node.op == "Mul" ||
                       node.op == "Div" || node.op == "Softmax" || node.op == "Attention");
    const bool stores = is_float && (extend(mix(seed), n) & 1) != 0;
    const int result = node.outputs[0];
    if (stores) node.outputs[0] = value();
    const int computed = node.outputs[0];
    model.nodes.push_back(std::move(node));
    if (!stores) continue;
    const int stored = value();
    cast(computed, stored, own);
    cast(stored, result, f32);
  }
  for (graph::Output output : from.outputs) {
    if (output.type && graph::width_of(*output.type) != 16) {
      model.outputs.push_back(std::move(output));
      continue;
    }
    const int result = value();
    cast(output.value, result, own);
    output.value = result;
    output.type.reset();
    model.outputs.push_back(std::move(output));
  }
  return model;
}

class StoresAtTimes final : public Runtime {
 public:
  StoresAtTimes(const graph::Careless& how, std::uint64_t seed) : arithmetic_(graph::careless(how)), seed_(seed) {}
  [[nodiscard]] const RuntimeInfo& info() const noexcept override { return info_; }
  Answer run(const Part& part, const Build&, const graph::Feeds& feeds, std::size_t, Freshness) override {
    const graph::Program program(stored_at_times(part.program->model(), seed_++));
    return {{}, results_by(program, feeds, *arithmetic_, {})};
  }

 private:
  RuntimeInfo info_{"stores-at-times", "1", {"only"}, {}};
  std::unique_ptr<graph::Arithmetic> arithmetic_;
  std::uint64_t seed_;
};

}  // namespace attest::models::test
