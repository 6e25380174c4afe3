#include "models/exhibit.hpp"

#include <algorithm>
#include <utility>

#include "core/error.hpp"
#include "engine/file.hpp"
#include "graph/problem.hpp"
#include "models/given.hpp"
#include "models/laws.hpp"
#include "models/tensors.hpp"

namespace attest::models {
namespace {

constexpr std::uintmax_t largest_segment = std::uintmax_t{1} << 31;

Exhibit made(std::string name, const Part& part, std::vector<graph::Feeds> before, graph::Feeds feeds,
             const Entry& entry, std::uint64_t seed, Runtime* runtime) {
  const graph::Precision precision = graph::precision_from_text(entry.policy);
  Case one(part, feeds, precision, seed);
  Exhibit exhibit{std::move(name),
                  part.program->model(),
                  std::move(before),
                  std::move(feeds),
                  one.ensemble().spreads(graph::many_members),
                  std::nullopt};
  for (std::size_t i = 0; i < exhibit.expected.size(); ++i)  // files state them
    graph::state(exhibit.model.outputs[i], exhibit.expected[i].reference);
  if (runtime == nullptr) return exhibit;
  Freshness on = Freshness::new_process;
  for (const graph::Feeds& earlier : exhibit.before) {
    const std::size_t room = Case(part, earlier, precision, seed).room();
    runtime->run(part, entry.build, earlier, room, std::exchange(on, Freshness::kept));
  }
  Answer answer = runtime->run(part, entry.build, exhibit.feeds, one.room(), on);
  if (answer.result.status == CallStatus::done && std::ranges::all_of(answer.outputs, has_its_elements))
    exhibit.got = std::move(answer.outputs);
  return exhibit;
}

}  // namespace

Exhibit whole_of(const Entry& entry, const Part& model, Runtime* runtime) {
  const graph::Problem problem = graph::problem_from_text(entry.problem);
  const graph::Family family(*model.program, constraints_of(entry, *model.program));
  std::vector<graph::Feeds> before;
  for (const std::string& text : entry.after) before.push_back(family.feeds(graph::problem_from_text(text)));
  return made("model", model, std::move(before), family.feeds(problem), entry, problem.seed, runtime);
}

std::optional<Exhibit> segment_of(const std::filesystem::path& file, const Entry& entry, Runtime* runtime) {
  std::filesystem::path graph_file = file, tensors = file;
  graph_file.replace_extension(".onnx");
  tensors.replace_extension(".npz");
  std::error_code ignored;
  if (entry.segment.empty() || !std::filesystem::is_regular_file(graph_file, ignored) ||
      !std::filesystem::is_regular_file(tensors, ignored))
    return std::nullopt;
  const Part part = part_of_file(engine::read_file(graph_file, largest_segment), graph_file.filename().string());
  RunsOf runs = runs_from(load_npz(tensors), part.program->model(), tensors.string());
  return made("segment", part, std::move(runs.before), std::move(runs.feeds), entry,
              graph::problem_from_text(entry.problem).seed, runtime);
}

}  // namespace attest::models
