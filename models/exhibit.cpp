#include "models/exhibit.hpp"

#include <algorithm>

#include "core/error.hpp"
#include "engine/file.hpp"
#include "graph/problem.hpp"
#include "models/laws.hpp"
#include "models/tensors.hpp"

namespace attest::models {
namespace {

constexpr std::uintmax_t largest_segment = std::uintmax_t{1} << 31;

Exhibit made(std::string name, const Part& part, graph::Feeds feeds, const Entry& entry, std::uint64_t seed,
             Runtime* runtime) {
  const graph::Precision precision = graph::precision_from_text(entry.policy);
  Case one(part, feeds, precision, seed);
  Exhibit exhibit{std::move(name), part.program->model(), std::move(feeds), one.ensemble().spreads(graph::many_members),
                  std::nullopt};
  for (std::size_t i = 0; i < exhibit.expected.size(); ++i)  // files state them
    graph::state(exhibit.model.outputs[i], exhibit.expected[i].reference);
  if (runtime == nullptr) return exhibit;
  Answer answer = runtime->run(part, entry.build, exhibit.feeds, one.room(), Freshness::new_process);
  if (answer.result.status == CallStatus::done && std::ranges::all_of(answer.outputs, has_its_elements))
    exhibit.got = std::move(answer.outputs);
  return exhibit;
}

}  // namespace

Exhibit whole_of(const Entry& entry, const Part& model, Runtime* runtime) {
  const graph::Problem problem = graph::problem_from_text(entry.problem);
  const graph::Family family(*model.program);
  return made("model", model, family.feeds(problem), entry, problem.seed, runtime);
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
  const std::vector<NamedArray> arrays = load_npz(tensors);
  graph::Feeds feeds;
  for (const graph::Input& input : part.program->model().inputs) {
    const auto found = std::ranges::find(arrays, input.name, &NamedArray::name);
    if (found == arrays.end())
      throw usage_error(tensors.string() + " does not hold the input '" + input.name + "' of the segment beside it");
    NamedArray array = *found;
    array.type = static_cast<NamedArray::Type>(input.type);  // bf16 lies there as uint16
    feeds.emplace(input.name, array_of(array));
  }
  return made("segment", part, std::move(feeds), entry, graph::problem_from_text(entry.problem).seed, runtime);
}

}  // namespace attest::models
