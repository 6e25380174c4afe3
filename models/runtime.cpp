#include "models/runtime.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <utility>

#include "core/digest.hpp"
#include "core/error.hpp"
#include "graph/cut.hpp"
#include "graph/read.hpp"
#include "graph/write.hpp"
#include "models/tensors.hpp"

namespace attest::models {
namespace {

constexpr std::size_t most_kept = 8;  // models that a process has compiled at a time

std::vector<std::vector<Index>> shapes_of(const graph::Model& model, const graph::Feeds& feeds) {
  std::vector<std::vector<Index>> shapes;
  for (const graph::Input& input : model.inputs) shapes.push_back(feeds.at(input.name).shape);
  return shapes;
}

// One process, and what it has compiled, the oldest first.
class Station {
 public:
  explicit Station(const WorkerCommand& command) : worker_(command) {}

  [[nodiscard]] const RuntimeWorker& worker() const noexcept { return worker_; }
  // Of the graph that was compiled first; nothing before one was.
  [[nodiscard]] const std::optional<std::string>& note() const noexcept { return note_; }

  Answer run(const Part& part, const Build& build, const graph::Feeds& feeds, std::size_t room, bool anew) {
    int number = 0;
    if (const CallResult loaded = compiled(part, build, feeds, anew, number); loaded.status != CallStatus::done)
      return {loaded, {}};
    std::vector<NamedArray> inputs;
    std::vector<std::string> names;
    for (const graph::Input& input : part.program->model().inputs)
      inputs.push_back(named(input.name, feeds.at(input.name)));
    for (const graph::Output& output : part.program->model().outputs) names.push_back(output.name);
    ModelAnswer got = worker_.ask(number, inputs, names, room, build.layout);
    Answer answer{std::move(got.result), {}};
    for (const NamedArray& one : got.outputs) {
      if (one.type > NamedArray::last_of_models)
        return {{CallStatus::error, fmt::format("output '{}' is of type {}", one.name, one.descr)}, {}};
      answer.outputs.push_back(array_of(one));
    }
    return answer;
  }

 private:
  struct Kept {
    std::string key;
    int number;
  };

  CallResult compiled(const Part& part, const Build& build, const graph::Feeds& feeds, bool anew, int& number) {
    std::string key = fmt::format("{} {} {}", part.key, build.threads, build.fixed);
    if (build.fixed)
      for (const auto& shape : shapes_of(part.program->model(), feeds)) key += graph::shape_text(shape);
    const auto known = std::ranges::find(kept_, key, &Kept::key);
    if (known != kept_.end() && !anew) {
      number = known->number;
      return {};
    }
    if (known != kept_.end()) drop(known);
    if (kept_.size() >= most_kept) drop(kept_.cbegin());
    CallResult result;
    if (build.fixed) {
      const graph::Model& model = part.program->model();
      result = worker_.load(graph::write_model(graph::with_fixed_lengths(model, shapes_of(model, feeds))),
                            {build.level, build.threads}, number);
    } else {
      result = worker_.load(part.file, {build.level, build.threads}, number);
    }
    if (result.status != CallStatus::done) return result;
    kept_.push_back({key, number});
    if (!note_) note_ = worker_.note();
    return result;
  }

  void drop(std::deque<Kept>::const_iterator which) {
    worker_.unload(which->number);
    kept_.erase(which);
  }

  RuntimeWorker worker_;
  std::deque<Kept> kept_;
  std::optional<std::string> note_;
};

class Workers final : public Runtime {
 public:
  explicit Workers(WorkerCommand command) : command_(std::move(command)) {
    auto first = std::make_unique<Station>(command_);
    info_ = first->worker().info();
    stations_.emplace(info_.builds.front(), std::move(first));
  }

  [[nodiscard]] const RuntimeInfo& info() const noexcept override { return info_; }

  [[nodiscard]] std::string note(const std::string& level) const override {
    const auto known = notes_.find(level);
    return known == notes_.end() ? std::string() : known->second;
  }

  Answer run(const Part& part, const Build& build, const graph::Feeds& feeds, std::size_t room, Freshness on) override {
    auto& station = stations_[build.level];
    if (!station || !station->worker().usable() || on == Freshness::new_process)
      station = std::make_unique<Station>(command_);
    Answer answer = station->run(part, build, feeds, room, on != Freshness::kept);
    if (station->note()) notes_.emplace(build.level, *station->note());
    return answer;
  }

 private:
  WorkerCommand command_;
  RuntimeInfo info_;
  std::map<std::string, std::unique_ptr<Station>> stations_;  // by level
  std::map<std::string, std::string> notes_;                  // likewise
};

Part part(std::string bytes, std::unique_ptr<const graph::Program> program) {
  Part part{std::move(bytes), 0, std::move(program)};
  part.key = digest_of(part.file);
  return part;
}

}  // namespace

Part part_of_file(std::string bytes, std::string_view name) {
  auto program = std::make_unique<graph::Program>(graph::read_model(bytes, name));
  return part(std::move(bytes), std::move(program));
}

Part part_of_model(const graph::Model& model) {
  return part(graph::write_model(model), std::make_unique<graph::Program>(model));
}

std::string to_text(const Build& build) {
  std::string text = build.level;
  if (build.fixed) text += ", static";
  if (build.threads != 1) text += fmt::format(", {} threads", build.threads);
  if (build.layout != InputLayout::packed) text += fmt::format(", {} inputs", name(build.layout));
  return text;
}

std::unique_ptr<Runtime> open_runtime(WorkerCommand command) { return std::make_unique<Workers>(std::move(command)); }

}  // namespace attest::models
