#include "models/localise.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <set>
#include <span>
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
  Search(const Law& law, const Asking& asking, const graph::Precision& precision, std::uint64_t seed,
         std::span<const EarlierCall> before)
      : law_(law),
        asking_(asking),
        model_(asking.problem.part().program->model()),
        precision_(precision),
        seed_(seed),
        before_(before),
        order_(computed_values(model_)),
        right_(evaluated(asking.problem.feeds())) {}

  std::optional<Place> run(const PlaceLimits& limits) {
    Place place;
    bool stops_otherwise = false;
    const std::vector<bool> wanted = needed_for_outputs();
    const auto needed = [&](int value) { return wanted[static_cast<std::size_t>(value)]; };
    place.of = static_cast<std::size_t>(std::ranges::count_if(order_, needed));
    for (const int value : order_) {
      if (!needed(value) || !graph::is_exchanged(right_.at(value))) continue;
      if (place.tried == limits.prefixes || (limits.give_up && limits.give_up())) return std::nullopt;
      ++place.tried;
      const Part part = part_of_model(typed(prefix(model_, value)));
      std::vector<Feeds> before;
      for (const EarlierCall& one : before_) before.push_back(feeds_of(part.program->model(), one.feeds));
      std::vector<Array> got;
      place.result = result_on(part, before, feeds_of(part.program->model(), asking_.problem.feeds()), got);
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
        if (!got.empty()) place.explains = explains(value, got.front());
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

  // The tensors that any output hangs on. It says little which of the outputs failed: a tensor on the way to another
  // one may be the first that is wrong.
  [[nodiscard]] std::vector<bool> needed_for_outputs() const {
    std::vector<bool> wanted(model_.values.size(), false);
    for (const graph::Output& output : model_.outputs) {
      const auto of_one = needed_for(model_, output.value);
      for (std::size_t v = 0; v < wanted.size(); ++v) wanted[v] = wanted[v] || of_one[v];
    }
    return wanted;
  }

  using Right = std::map<int, Array>;  // by value
  // All that nodes give on a problem, rounded to its types on the way.
  [[nodiscard]] Right evaluated(const Feeds& feeds) const {
    Model open = model_;
    open.outputs.clear();
    for (const int value : order_) open.outputs.push_back({name(value), value});
    const auto arithmetic = graph::nearest();
    auto results = results_by(graph::Program(std::move(open)), feeds, *arithmetic, precision_);
    Right right;
    for (std::size_t i = 0; i < order_.size(); ++i) right.emplace(order_[i], std::move(results[i]));
    for (const Input& input : model_.inputs) right.emplace(input.value, feeds.at(input.name));
    return right;
  }

  // The model with types and ranks of outputs, which files state.
  Model typed(Model cut) const {
    for (graph::Output& output : cut.outputs) graph::state(output, right_.at(output.value));
    return cut;
  }

  // `got`: the outputs of a part's run that came to an end.
  LawResult result_on(const Part& part, const std::vector<Feeds>& before, const Feeds& feeds, std::vector<Array>& got) {
    const auto on = [&](Freshness on) {
      for (std::size_t i = 0; i < before.size(); ++i) {
        Case earlier(part, before[i], precision_, before_[i].seed);
        ask(law_, {earlier, asking_.runtime, asking_.build, std::exchange(on, Freshness::kept)});
      }
      got.clear();
      Case problem(part, feeds, precision_, seed_);
      return ask(law_, {problem, asking_.runtime, asking_.build, on, asking_.pictures, &got});
    };
    if (before.empty()) return on(Freshness::kept);
    // A process for each of many parts takes long: a failure in one that has seen others is asked again of a new one.
    LawResult result = on(Freshness::new_session);
    return fails(result) ? on(Freshness::new_process) : result;
  }

  // Results of the whole graph; none where it gives none.
  std::optional<std::vector<Array>> whole() {
    Freshness on = before_.empty() ? Freshness::kept : Freshness::new_process;
    const auto run = [&](const Feeds& feeds, std::uint64_t seed) {
      Case one(asking_.problem.part(), feeds, precision_, seed);
      return asking_.runtime.run(one.part(), asking_.build, feeds, one.room(), std::exchange(on, Freshness::kept));
    };
    for (const EarlierCall& call : before_) run(call.feeds, call.seed);
    Answer answer = run(asking_.problem.feeds(), seed_);
    if (answer.result.status != CallStatus::done) return std::nullopt;
    return std::move(answer.outputs);
  }

  // Tells whether the graph behind `value`, evaluated exactly from what the runtime has there, gives what the runtime's
  // whole graph gives.
  bool explains(int value, const Array& got) {
    if (got.shape != right_.at(value).shape || got.type != right_.at(value).type) return false;
    const auto given = whole();
    if (!given) return false;
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
    return agrees(difference(asking_.problem.ensemble(), made, *given));
  }

  // Goes back from `value` node by node, the latest first, until what lies between fails by itself.
  std::optional<Place::Segment> shortest_segment(int value, std::size_t most) {
    std::vector<Right> right_before;
    for (const EarlierCall& one : before_) right_before.push_back(evaluated(one.feeds));
    std::set<std::size_t> nodes{number_of_giver(value)};
    while (nodes.size() <= most) {
      std::set<int> fed = inputs_of(nodes);
      const auto kept_within = std::ranges::find_if(
          fed, [&](int one) { return !is_own_input(one) && !graph::is_exchanged(right_.at(one)); });
      if (kept_within != fed.end()) {
        nodes.insert(number_of_giver(*kept_within));
        continue;
      }
      std::vector<Input> inputs;
      for (const int one : fed)
        if (!is_own_input(one)) inputs.push_back(graph::input_in_place_of(model_, one, right_.at(one)));
      Model cut = typed(segment(model_, inputs, value));
      const auto feeds_from = [&cut](const Right& right) {
        Feeds feeds;
        for (const Input& input : cut.inputs) feeds.emplace(input.name, right.at(input.value));
        return feeds;
      };
      std::vector<Feeds> before;
      for (const Right& right : right_before) before.push_back(feeds_from(right));
      Feeds feeds = feeds_from(right_);
      const Part part = part_of_model(cut);
      std::vector<Array> got;
      const LawResult result = result_on(part, before, feeds, got);
      if (fails(result)) {
        Place::Segment found{{},    std::move(cut), std::move(before), std::move(feeds), std::nullopt, right_.at(value),
                             result};
        for (const std::size_t n : nodes)
          found.nodes.push_back(name(model_.nodes[n].outputs.front()) + " (" + model_.nodes[n].op + ")");
        if (!got.empty() && has_its_elements(got.front())) found.got = got.front();
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

  // The values that these nodes read and that are neither constant nor given by one of them.
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
  std::span<const EarlierCall> before_;
  std::vector<int> order_;
  Right right_;
};

}  // namespace

std::optional<Place> localise(const Law& law, const Asking& asking, const graph::Precision& precision,
                              std::uint64_t seed, const PlaceLimits& limits) {
  if (law.ask == proven_bound) return part_that_fails(asking, limits.before);
  return Search(law, asking, precision, seed, limits.before).run(limits);
}

}  // namespace attest::models
