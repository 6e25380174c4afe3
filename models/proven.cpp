#include "models/proven.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "core/digest.hpp"
#include "core/rng.hpp"
#include "engine/ops.hpp"
#include "graph/cut.hpp"
#include "graph/emulated.hpp"
#include "graph/raw.hpp"

namespace attest::models {
namespace {

using engine::NumbersOfValues;
using graph::Array;
using graph::Model;

// A subgraph on a problem of its graph: right numbers, and the part as a model of its own.
class AskedPart {
 public:
  AskedPart(const Model& model, const engine::Subgraph& subgraph, const graph::Feeds& feeds,
            const graph::Precision& precision) {
    Model open = prefix(model, subgraph.output);
    open.outputs.clear();
    std::vector<int> wanted = subgraph.fed;
    wanted.insert(wanted.end(), subgraph.judged_by.begin(), subgraph.judged_by.end());
    wanted.push_back(subgraph.output);
    for (const int value : wanted) {
      if (const auto constant = model.constants.find(value); constant != model.constants.end())
        numbers_.emplace(value, constant->second);
      else if (const auto input = std::ranges::find(model.inputs, value, &graph::Input::value);
               input != model.inputs.end())
        numbers_.emplace(value, feeds.at(input->name));
      else if (std::ranges::find(open.outputs, value, &graph::Output::value) == open.outputs.end())
        open.outputs.push_back({model.values[static_cast<std::size_t>(value)], value});
    }
    const std::vector<graph::Output> outputs = open.outputs;
    const graph::Program program(std::move(open));
    const auto nearest = graph::nearest();
    auto results = graph::results_by(program, graph::feeds_of(program.model(), feeds), *nearest, precision);
    for (std::size_t i = 0; i < outputs.size(); ++i) numbers_.insert_or_assign(outputs[i].value, std::move(results[i]));

    std::vector<graph::Input> fed;
    for (const int value : subgraph.fed)
      if (std::ranges::find(model.inputs, value, &graph::Input::value) == model.inputs.end())
        fed.push_back(graph::input_in_place_of(model, value, numbers_.at(value)));
    Model cut = segment(model, fed, subgraph.output);
    for (graph::Output& output : cut.outputs) graph::state(output, numbers_.at(subgraph.output));
    for (const graph::Input& input : cut.inputs)
      feeds_.emplace(input.name, numbers_.contains(input.value) ? numbers_.at(input.value) : feeds.at(input.name));
    part_ = part_of_model(cut);
  }

  [[nodiscard]] const Part& part() const noexcept { return part_; }
  [[nodiscard]] const graph::Feeds& feeds() const noexcept { return feeds_; }
  [[nodiscard]] const NumbersOfValues& numbers() const noexcept { return numbers_; }

 private:
  NumbersOfValues numbers_;
  graph::Feeds feeds_;
  Part part_;
};

// "context[1,0,3]".
std::string index_text(std::string_view name, const Array& array, Index element) {
  std::string index;
  for (std::size_t k = array.shape.size(); k-- > 0; element /= array.shape[k])
    index = fmt::format("{}{}{}", element % array.shape[k], index.empty() ? "" : ",", index);
  return fmt::format("{}[{}]", name, index);
}

}  // namespace

LawResult proven_bound(const Asking& asking, const std::vector<Array>& /*whole*/) {
  const Model& model = asking.problem.part().program->model();
  const graph::Precision& precision = asking.problem.precision();
  if (precision.outer != graph::Precision{}.outer)
    return skipped("no bound is proven of graphs that run in another format than their own");
  std::vector<std::unique_ptr<engine::Subgraph>> all;
  const graph::Connections connections(model);
  for (const engine::Op* op : engine::all_ops())
    for (auto& one : op->subgraphs(connections)) all.push_back(std::move(one));
  if (all.empty()) return skipped("it has no part of which a bound is proven");
  const auto name = [&model](int value) -> const std::string& { return model.values[static_cast<std::size_t>(value)]; };
  // The same one in each prefix that has it.
  const engine::Subgraph& subgraph = **std::ranges::min_element(
      all, {}, [&](const auto& one) { return extend(mix(asking.problem.seed()), digest_of(name(one->core))); });
  const AskedPart asked(model, subgraph, asking.problem.feeds(), precision);
  const Array& right = asked.numbers().at(subgraph.output);
  const std::size_t room = static_cast<std::size_t>(right.size()) * graph::bytes_of(right.type) + 64;
  const Answer answer = asking.runtime.run(asked.part(), asking.build, asked.feeds(), room, Freshness::kept);
  // What a runtime does not build of a part is no wrong number of the whole.
  if (answer.result.status == CallStatus::unsupported || answer.result.status == CallStatus::error)
    return skipped("not built by itself: " + answer.result.message);
  if (answer.result.status != CallStatus::done) return result_of(answer.result);

  const graph::Node& node = *graph::giver_of(model, subgraph.output);
  const std::string who = fmt::format("{} by itself, fed with right tensors",
                                      described(node, static_cast<std::size_t>(&node - model.nodes.data())));
  LawResult result;
  if (answer.outputs.size() != 1 || answer.outputs[0].type != right.type || answer.outputs[0].shape != right.shape ||
      !has_its_elements(answer.outputs[0])) {
    result.kind = VerdictKind::fail;
    result.failure_class = "shape";
    result.reason = fmt::format("{}: another type or shape than {} {}", who, graph::name(right.type),
                                graph::shape_text(right.shape));
    return result;
  }
  const engine::SubgraphVerdict told = subgraph.judge(asked.numbers(), answer.outputs[0], precision);
  result.kind = told.verdict.kind;
  result.reason = told.verdict.reason;
  result.proven = told.verdict.counts.judged;
  if (!told.verdict.evidence) return result;
  const Evidence& evidence = *told.verdict.evidence;
  result.failure_class = evidence.wrong == Wrong::finite ? "finite" : "nan";
  result.witness = graph::Witness{name(subgraph.output), told.element, evidence.got, evidence.expected, 0};
  result.reason = fmt::format("{}: {} = {}, expected {}, permitted {} .. {}, the proven bound of {}", who,
                              index_text(name(subgraph.output), right, told.element), evidence.got, evidence.expected,
                              evidence.lo, evidence.hi, told.bound);
  return result;
}

}  // namespace attest::models
