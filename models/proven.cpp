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
#include "models/tensors.hpp"

namespace attest::models {
namespace {

using engine::NumbersOfValues;
using graph::Array;
using graph::Model;

// A subgraph on a problem of its graph: right numbers, and the part as a model of its own.
class AskedPart {
 public:
  AskedPart(const Model& model, const engine::Subgraph& subgraph, const graph::Feeds& feeds,
            const graph::Precision& precision)
      : output_(subgraph.output) {
    Model open = prefix(model, subgraph.output);
    open.outputs.clear();
    std::vector<int> wanted = subgraph.fed;
    wanted.insert(wanted.end(), subgraph.judged_by.begin(), subgraph.judged_by.end());
    wanted.push_back(subgraph.output);
    for (const int value : wanted) {
      if (const auto constant = model.constants.find(value); constant != model.constants.end())
        numbers_.emplace(value, constant->second.array());
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
  // The reference of its result.
  [[nodiscard]] const Array& right() const { return numbers_.at(output_); }
  [[nodiscard]] std::size_t room() const { return graph::bytes_of(right().type, right().size()) + 64; }

 private:
  int output_;
  NumbersOfValues numbers_;
  graph::Feeds feeds_;
  Part part_;
};

using Subgraphs = std::vector<std::unique_ptr<engine::Subgraph>>;

Subgraphs subgraphs_of(const Model& model) {
  Subgraphs all;
  const graph::Connections connections(model);
  for (const engine::Op* op : engine::all_ops())
    for (auto& one : op->subgraphs(connections)) all.push_back(std::move(one));
  return all;
}

const std::string& name_of(const Model& model, int value) { return model.values[static_cast<std::size_t>(value)]; }

// Picks the part that a problem asks; nullptr if there is none. The name of its core is hashed: it is the same in a
// prefix of the graph, and in a graph with further parts of the other kind.
const engine::Subgraph* picked(const Subgraphs& all, bool blocks, const Model& model, std::uint64_t seed) {
  const engine::Subgraph* least = nullptr;
  std::uint64_t of_least = 0;
  for (const auto& one : all) {
    if ((one->inner >= 0) != blocks) continue;
    const std::uint64_t hash = extend(mix(seed), digest_of(name_of(model, one->core)));
    if (least != nullptr && hash >= of_least) continue;
    least = one.get();
    of_least = hash;
  }
  return least;
}

// The nodes of a part, in the order of evaluation.
std::vector<const graph::Node*> nodes_of(const Model& model, const engine::Subgraph& subgraph) {
  std::vector<bool> wanted(model.values.size(), false);
  wanted[static_cast<std::size_t>(subgraph.output)] = true;
  std::vector<const graph::Node*> nodes;
  for (auto node = model.nodes.rbegin(); node != model.nodes.rend(); ++node) {  // clang 14 has no views of libstdc++ 12
    const bool gives = std::ranges::any_of(node->outputs, [&](int v) {
      return v >= 0 && wanted[static_cast<std::size_t>(v)] && std::ranges::find(subgraph.fed, v) == subgraph.fed.end();
    });
    if (!gives) continue;
    nodes.insert(nodes.begin(), &*node);
    for (const int value : node->inputs)
      if (value >= 0) wanted[static_cast<std::size_t>(value)] = true;
  }
  return nodes;
}

// The verdict on a runtime's answer on a part.
LawResult judged(const Model& model, const engine::Subgraph& subgraph, const AskedPart& asked, const Answer& answer,
                 const graph::Precision& precision) {
  const Array& right = asked.right();
  // A part that a runtime does not build is no wrong number of the whole.
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
  result.witness = graph::Witness{name_of(model, subgraph.output), told.element, evidence.got, evidence.expected, 0};
  const bool narrow = graph::bytes_of(right.type, 1) == 2;
  result.reason =
      fmt::format("{}: {} = {}, expected {}, permitted {} .. {}{}, the proven bound of {}", who,
                  element_text(name_of(model, subgraph.output), right.shape, told.element), evidence.got,
                  evidence.expected, evidence.lo, evidence.hi,
                  narrow ? fmt::format(" before it is rounded to {}", graph::name(right.type)) : "", told.bound);
  return result;
}

LawResult ask_part(const Asking& asking, const engine::Subgraph& subgraph) {
  const Model& model = asking.problem.part().program->model();
  const graph::Precision& precision = asking.problem.precision();
  const AskedPart asked(model, subgraph, asking.problem.feeds(), precision);
  const Answer answer = asking.runtime.run(asked.part(), asking.build, asked.feeds(), asked.room(), Freshness::kept);
  return judged(model, subgraph, asked, answer, precision);
}

// A part that a problem asks, and what it came to.
struct AskedOf {
  const engine::Subgraph* part = nullptr;  // none of a graph without parts
  LawResult result;
};

// Asks one of the parts that are an attention or a normalisation, and, where that holds, one of the blocks. If a block
// fails and its attention fails by itself, too, the latter is told: it says more.
AskedOf ask_parts(const Asking& asking, const Subgraphs& all) {
  const Model& model = asking.problem.part().program->model();
  AskedOf told;
  if (const auto* const part = picked(all, false, model, asking.problem.seed())) told = {part, ask_part(asking, *part)};
  const engine::Subgraph* const block = picked(all, true, model, asking.problem.seed());
  if (block == nullptr || is_finding(told.result.kind)) return told;
  LawResult whole = ask_part(asking, *block);
  if (is_finding(whole.kind)) {
    const auto within = std::ranges::find(all, block->inner, &engine::Subgraph::core);
    if (within == all.end() || within->get() == told.part) return {block, std::move(whole)};
    LawResult inner = ask_part(asking, **within);
    if (is_finding(inner.kind)) return {within->get(), std::move(inner)};
    return {block, std::move(whole)};
  }
  const auto says_more = [](const LawResult& result) {
    return result.kind == VerdictKind::pass ? 2 : result.kind == VerdictKind::vacuous ? 1 : 0;
  };
  const Index proven = told.result.proven + whole.proven;
  if (told.part == nullptr || says_more(whole) > says_more(told.result)) told = {block, std::move(whole)};
  told.result.proven = proven;
  return told;
}

constexpr std::string_view other_format = "no bound is proven of graphs that run in another format than their own";

// The numbers of `wanted`, evaluated to nearest on a small problem that the graph takes; nullopt where none is found.
std::optional<NumbersOfValues> numbers_on_a_small_problem(const graph::Family& family, const std::vector<int>& wanted,
                                                          const graph::Precision& precision) {
  constexpr std::uint64_t drawn = 16;
  constexpr Index most = 512;  // elements of an input
  const Model& model = family.program().model();
  Model open = model;
  open.outputs.clear();
  for (const int value : wanted)
    if (graph::giver_of(model, value) != nullptr) open.outputs.push_back({name_of(model, value), value});
  const std::vector<graph::Output> outputs = open.outputs;
  const graph::Program program(std::move(open));
  const auto nearest = graph::nearest();
  for (std::uint64_t number = 0; number <= drawn; ++number) try {
      const graph::Feeds feeds = family.feeds(number == 0 ? family.of_length(2) : family.draw(1, number, most));
      auto results = graph::results_by(program, feeds, *nearest, precision);
      NumbersOfValues numbers;
      for (const int value : wanted)
        if (const auto constant = model.constants.find(value); constant != model.constants.end())
          numbers.emplace(value, constant->second.array());
      for (const graph::Input& input : model.inputs) numbers.emplace(input.value, feeds.at(input.name));
      for (std::size_t i = 0; i < outputs.size(); ++i)
        numbers.insert_or_assign(outputs[i].value, std::move(results[i]));
      return numbers;
    } catch (const Error& error) {
      if (error.exit() != Exit::usage) throw;
    }
  return std::nullopt;
}

}  // namespace

std::vector<KnownPart> known_parts(const graph::Family& family, const graph::Precision& precision) {
  const Model& model = family.program().model();
  const graph::Connections connections(model);
  std::vector<KnownPart> parts;
  std::vector<std::unique_ptr<engine::Subgraph>> all;
  std::vector<int> wanted;
  for (const engine::Op* op : engine::all_ops()) {
    for (auto& one : op->subgraphs(connections)) {
      parts.push_back({std::string(op->name()), name_of(model, one->output), nodes_of(model, *one).size(), {}});
      wanted.push_back(one->output);
      wanted.insert(wanted.end(), one->judged_by.begin(), one->judged_by.end());
      all.push_back(std::move(one));
    }
    for (const ops::Unrecognised& one : op->unrecognised(connections)) {
      parts.push_back({std::string(op->name()), name_of(model, one.value), 0, one.reason});
      all.push_back(nullptr);
    }
  }
  std::ranges::sort(wanted);
  const auto [from, to] = std::ranges::unique(wanted);
  wanted.erase(from, to);
  const bool own = precision.outer == graph::Precision{}.outer;
  const auto numbers = own && !wanted.empty() ? numbers_on_a_small_problem(family, wanted, precision) : std::nullopt;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (all[i] == nullptr) continue;
    if (!own) parts[i].skipped = other_format;
    if (!numbers) continue;  // problems tell
    const auto told = all[i]->judge(*numbers, numbers->at(all[i]->output), precision);
    if (told.verdict.kind == VerdictKind::skip) parts[i].skipped = told.verdict.reason;
  }
  return parts;
}

std::optional<Place> part_that_fails(const Asking& asking, std::span<const EarlierCall> before) {
  const Part& whole = asking.problem.part();
  const Model& model = whole.program->model();
  const graph::Precision& precision = asking.problem.precision();
  const Subgraphs all = subgraphs_of(model);
  // The whole is asked first, as the law does.
  Freshness on = before.empty() ? Freshness::kept : Freshness::new_process;
  for (const EarlierCall& call : before) {
    Case earlier(whole, call.feeds, precision, call.seed);
    ask(law_named("proven-bound"), {earlier, asking.runtime, asking.build, std::exchange(on, Freshness::kept)});
  }
  asking.runtime.run(whole, asking.build, asking.problem.feeds(), asking.problem.room(), on);
  AskedOf asked = ask_parts(asking, all);
  if (asked.part == nullptr || !is_finding(asked.result.kind)) return std::nullopt;
  const engine::Subgraph& subgraph = *asked.part;
  const graph::Node& node = *graph::giver_of(model, subgraph.output);
  Place place{name_of(model, subgraph.output), node.name, node.op, all.size(), all.size(), false, asked.result, {}};

  const AskedPart part(model, subgraph, asking.problem.feeds(), precision);
  Place::Segment segment{{}, part.part().program->model(), {}, part.feeds(), std::nullopt, part.right(), asked.result};
  for (const graph::Node* one : nodes_of(model, subgraph))
    segment.nodes.push_back(fmt::format("{} ({})", name_of(model, one->outputs.front()), one->op));
  on = before.empty() ? Freshness::kept : Freshness::new_process;
  for (const EarlierCall& call : before) {
    const engine::Subgraph* const block = picked(all, true, model, call.seed);
    if (picked(all, false, model, call.seed) != &subgraph && block != &subgraph &&
        (block == nullptr || block->inner != subgraph.core))
      continue;
    const AskedPart earlier(model, subgraph, call.feeds, precision);
    asking.runtime.run(earlier.part(), asking.build, earlier.feeds(), earlier.room(),
                       std::exchange(on, Freshness::kept));
    segment.before.push_back(earlier.feeds());
  }
  const Answer answer = asking.runtime.run(part.part(), asking.build, part.feeds(), part.room(), on);
  if (answer.outputs.size() == 1 && has_its_elements(answer.outputs[0])) segment.got = answer.outputs[0];
  if (before.empty() || is_finding(judged(model, subgraph, part, answer, precision).kind))
    place.segment = std::move(segment);
  return place;
}

namespace {

std::vector<std::string_view> ops_of(const Model& model, const engine::Subgraph& subgraph) {
  std::vector<std::string_view> names;
  for (const graph::Node* one : nodes_of(model, subgraph)) names.push_back(one->op);
  return names;
}

const engine::Subgraph* giving(const Subgraphs& all, const Model& model, std::string_view tensor) {
  const auto found = std::ranges::find_if(all, [&](const auto& one) { return name_of(model, one->output) == tensor; });
  return found == all.end() ? nullptr : found->get();
}

}  // namespace

bool picks_one_like(const Asking& asking, std::string_view tensor) {
  const Model& model = asking.problem.part().program->model();
  const Subgraphs all = subgraphs_of(model);
  const engine::Subgraph* const known = giving(all, model, tensor);
  if (known == nullptr) return false;
  const engine::Subgraph* part = picked(all, false, model, asking.problem.seed());
  // Asking both shows which of them failed.
  if (picked(all, true, model, asking.problem.seed()) != nullptr) part = ask_parts(asking, all).part;
  return part != nullptr && ops_of(model, *known) == ops_of(model, *part);
}

bool parts_are_alike(const Model& model, std::string_view a, std::string_view b) {
  const Subgraphs all = subgraphs_of(model);
  const engine::Subgraph* const one = giving(all, model, a);
  const engine::Subgraph* const other = giving(all, model, b);
  return one != nullptr && other != nullptr && ops_of(model, *one) == ops_of(model, *other);
}

LawResult proven_bound_of(const Asking& asking, std::string_view tensor) {
  const Model& model = asking.problem.part().program->model();
  const Subgraphs all = subgraphs_of(model);
  const engine::Subgraph* const found = giving(all, model, tensor);
  return found == nullptr ? skipped("it has no part of which a bound is proven") : ask_part(asking, *found);
}

LawResult proven_bound(const Asking& asking, const std::vector<Array>& /*whole*/) {
  if (asking.problem.precision().outer != graph::Precision{}.outer) return skipped(std::string(other_format));
  const Subgraphs all = subgraphs_of(asking.problem.part().program->model());
  if (all.empty()) return skipped("it has no part of which a bound is proven");
  return ask_parts(asking, all).result;
}

}  // namespace attest::models
