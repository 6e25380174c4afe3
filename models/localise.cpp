#include "models/localise.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <set>
#include <utility>

#include "core/error.hpp"
#include "graph/cut.hpp"
#include "graph/emulated.hpp"
#include "graph/laws.hpp"
#include "models/proven.hpp"

namespace attest::models {
namespace {

using graph::Array;
using graph::Feeds;
using graph::Input;
using graph::Model;
using graph::Node;

bool fails(const LawResult& result) { return is_finding(result.kind); }

class Search {
 public:
  Search(const Law& law, const Asking& asking, const graph::Precision& precision, std::uint64_t seed)
      : law_(law),
        asking_(asking),
        model_(asking.problem.part().program->model()),
        precision_(precision),
        seed_(seed),
        order_(computed_values(model_)) {}

  std::optional<Place> run(const PlaceLimits& limits) {
    if (right_.empty()) evaluate_all();
    Place place;
    bool stops_otherwise = false;
    const std::vector<bool> wanted = needed_for_outputs();
    const auto needed = [&](int value) { return wanted[static_cast<std::size_t>(value)]; };
    place.of = static_cast<std::size_t>(std::ranges::count_if(order_, needed));
    for (const int value : order_) {
      if (!needed(value)) continue;
      if (place.tried == limits.prefixes || (limits.give_up && limits.give_up())) return std::nullopt;
      ++place.tried;
      const Part part = part_of_model(typed(prefix(model_, value)));
      Answer answer;
      place.result = result_on(part, feeds_of(part.program->model(), asking_.problem.feeds()), law_, answer);
      if (!fails(place.result)) continue;
      if (limits.stops_as && place.result.kind == VerdictKind::error &&
          place.result.failure_class != *limits.stops_as) {
        stops_otherwise = true;
        continue;
      }
      const Node& node = giver(value);
      place.tensor = name(value);
      place.node = node.name;
      place.op = node.op;
      if (law_.name == "spread") {
        if (!answer.outputs.empty()) place.explains = explains(value, answer.outputs.front());
        place.segment = shortest_segment(value, limits.segment);
      }
      return place;
    }
    if (!stops_otherwise) return std::nullopt;
    PlaceLimits any = limits;
    any.stops_as.reset();
    return run(any);
  }

 private:
  [[nodiscard]] const std::string& name(int value) const { return model_.values[static_cast<std::size_t>(value)]; }

  [[nodiscard]] const Node& giver(int value) const { return *graph::giver_of(model_, value); }

  // What any output hangs on. Which of them failed says little: a tensor on the way to another one may be the first that is wrong.
  [[nodiscard]] std::vector<bool> needed_for_outputs() const {
    std::vector<bool> wanted(model_.values.size(), false);
    for (const graph::Output& output : model_.outputs) {
      const auto of_one = needed_for(model_, output.value);
      for (std::size_t v = 0; v < wanted.size(); ++v) wanted[v] = wanted[v] || of_one[v];
    }
    return wanted;
  }

  // All that nodes give on this problem, rounded to its types on the way.
  void evaluate_all() {
    Model open = model_;
    open.outputs.clear();
    for (const int value : order_) open.outputs.push_back({name(value), value});
    const auto arithmetic = graph::nearest();
    auto results = results_by(graph::Program(std::move(open)), asking_.problem.feeds(), *arithmetic, precision_);
    for (std::size_t i = 0; i < order_.size(); ++i) right_.emplace(order_[i], std::move(results[i]));
    for (const Input& input : model_.inputs) right_.emplace(input.value, asking_.problem.feeds().at(input.name));
  }

  // With types and ranks of outputs, which files state.
  Model typed(Model cut) const {
    for (graph::Output& output : cut.outputs) graph::state(output, right_.at(output.value));
    return cut;
  }

  LawResult result_on(const Part& part, const Feeds& feeds, const Law& law, Answer& answer) {
    Case problem(part, feeds, precision_, seed_);
    const Asking asking{problem, asking_.runtime, asking_.build, Freshness::kept, asking_.pictures};
    LawResult result = ask(law, asking);
    if (fails(result)) answer = asking_.runtime.run(part, asking_.build, feeds, problem.room(), Freshness::kept);
    return result;
  }

  // Whether the graph behind `value`, evaluated exactly from what the runtime has there, gives what the runtime's whole graph gives.
  bool explains(int value, const Array& got) {
    if (got.shape != right_.at(value).shape || got.type != right_.at(value).type) return false;
    const Answer whole = asking_.runtime.run(asking_.problem.part(), asking_.build, asking_.problem.feeds(),
                                             asking_.problem.room(), Freshness::kept);
    if (whole.result.status != CallStatus::done) return false;
    const auto arithmetic = graph::exact();
    std::vector<Array> made;
    for (const graph::Output& output : model_.outputs) {
      const Input fed = graph::input_in_place_of(model_, value, got);
      if (output.value == value) {
        made.push_back(got);
        continue;
      }
      const Model rest = segment(model_, std::span(&fed, 1), output.value);
      Feeds feeds = asking_.problem.feeds();
      feeds.insert_or_assign(fed.name, got);
      try {
        made.push_back(results_by(graph::Program(rest), feeds_of(rest, feeds), *arithmetic, precision_).front());
      } catch (const Error& error) {
        if (error.exit() != Exit::usage) throw;
        return false;  // wrong numbers may be a shape, or positions outside of a tensor
      }
    }
    return agrees(difference(asking_.problem.ensemble(), made, whole.outputs));
  }

  // Goes back from `value` node by node, the latest first, until what lies between fails by itself.
  std::optional<Place::Segment> shortest_segment(int value, std::size_t most) {
    std::set<std::size_t> nodes{number_of_giver(value)};
    while (nodes.size() <= most) {
      std::set<int> fed = inputs_of(nodes);
      std::vector<Input> inputs;
      for (const int one : fed)
        if (!is_own_input(one)) inputs.push_back(graph::input_in_place_of(model_, one, right_.at(one)));
      Model cut = typed(segment(model_, inputs, value));
      Feeds feeds;
      for (const Input& input : cut.inputs) feeds.emplace(input.name, right_.at(input.value));
      const Part part = part_of_model(cut);
      Answer answer;
      const LawResult result = result_on(part, feeds, law_, answer);
      if (fails(result)) {
        Place::Segment found{{}, std::move(cut), std::move(feeds), std::nullopt, right_.at(value), result};
        for (const std::size_t n : nodes)
          found.nodes.push_back(name(model_.nodes[n].outputs.front()) + " (" + model_.nodes[n].op + ")");
        if (!answer.outputs.empty() && has_its_elements(answer.outputs.front())) found.got = answer.outputs.front();
        return found;
      }
      std::optional<std::size_t> latest;
      for (const int one : fed)
        if (!is_own_input(one)) latest = std::max(latest.value_or(0), number_of_giver(one));
      if (!latest) return std::nullopt;
      nodes.insert(*latest);
    }
    return std::nullopt;
  }

  [[nodiscard]] std::size_t number_of_giver(int value) const {
    return static_cast<std::size_t>(&giver(value) - model_.nodes.data());
  }

  [[nodiscard]] bool is_own_input(int value) const {
    return std::ranges::any_of(model_.inputs, [value](const Input& input) { return input.value == value; });
  }

  // The result of a node without inputs.
  [[nodiscard]] bool is_made_of_nothing(int value) const { return !is_own_input(value) && giver(value).inputs.empty(); }

  // What nodes read that is neither constant nor given by one of them.
  [[nodiscard]] std::set<int> inputs_of(const std::set<std::size_t>& nodes) const {
    std::set<int> given, read;
    for (const std::size_t n : nodes) given.insert(model_.nodes[n].outputs.begin(), model_.nodes[n].outputs.end());
    for (const std::size_t n : nodes)
      for (const int one : model_.nodes[n].inputs)
        if (one >= 0 && !model_.constants.contains(one) && !given.contains(one) && !is_made_of_nothing(one))
          read.insert(one);
    return read;
  }

  const Law& law_;
  const Asking& asking_;
  const Model& model_;
  const graph::Precision& precision_;
  std::uint64_t seed_;
  std::vector<int> order_;
  std::map<int, Array> right_;  // by value
};

}  // namespace

std::optional<Place> localise(const Law& law, const Asking& asking, const graph::Precision& precision,
                              std::uint64_t seed, const PlaceLimits& limits) {
  if (law.ask == proven_bound) return part_that_fails(asking);
  return Search(law, asking, precision, seed).run(limits);
}

}  // namespace attest::models
