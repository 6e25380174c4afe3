#include "models/runtime.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <utility>

#include "core/error.hpp"
#include "graph/cut.hpp"
#include "graph/read.hpp"
#include "graph/write.hpp"
#include "models/tensors.hpp"

namespace attest::models {
namespace {

using Clock = std::chrono::steady_clock;

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
  void answer_by(std::optional<Clock::time_point> end) { worker_.answer_by(end); }

  [[nodiscard]] const RuntimeWorker& worker() const noexcept { return worker_; }
  // The remark on the graph that was compiled first; nothing before one was.
  [[nodiscard]] const std::optional<std::string>& note() const noexcept { return note_; }

  Answer run(const Part& part, const Build& build, const graph::Feeds& feeds, std::size_t room, bool anew) {
    int number = 0;
    bool known = false;
    if (const CallResult loaded = compiled(part, build, feeds, anew, number, known); loaded.status != CallStatus::done)
      return {loaded, {}, Freshness::new_session, worker_.cut_off()};
    std::vector<NamedArray> inputs;
    std::vector<std::string> names;
    for (const graph::Input& input : part.program->model().inputs)
      inputs.push_back(named(input.name, feeds.at(input.name)));
    for (const graph::Output& output : part.program->model().outputs) names.push_back(output.name);
    ModelAnswer got = worker_.ask(number, inputs, names, room, build.layout);
    Answer answer{std::move(got.result), {}, known ? Freshness::kept : Freshness::new_session, worker_.cut_off()};
    for (std::size_t i = 0; i < got.outputs.size(); ++i) {
      NamedArray& one = got.outputs[i];
      // 16 bits without a sign are those of bfloat16, but where the graph has such integers.
      const graph::Output& output = part.program->model().outputs[i];
      if (one.type == NamedArray::Type::bf16 && (output.type ? output.type : output.said) == graph::Type::u16)
        one.type = NamedArray::Type::u16;
      if (one.type > NamedArray::last_of_models)
        return {{CallStatus::error, fmt::format("output '{}' is of type {}", one.name, one.descr)}, {}, answer.on};
      answer.outputs.push_back(array_of(one));
    }
    return answer;
  }

 private:
  struct Kept {
    std::string key;
    int number;
  };

  // `known`: whether it was compiled before.
  CallResult compiled(const Part& part, const Build& build, const graph::Feeds& feeds, bool anew, int& number,
                      bool& known) {
    std::string key = fmt::format("{} {} {}", part.key, build.threads, build.fixed);
    if (build.fixed)
      for (const auto& shape : shapes_of(part.program->model(), feeds)) key += graph::shape_text(shape);
    const auto kept = std::ranges::find(kept_, key, &Kept::key);
    known = kept != kept_.end() && !anew;
    if (known) {
      number = kept->number;
      return {};
    }
    if (kept != kept_.end()) drop(kept);
    if (kept_.size() >= most_kept) drop(kept_.cbegin());
    CallResult result;
    if (build.fixed) {
      const graph::Model& model = part.program->model();
      result = worker_.load(graph::write_model(graph::with_fixed_lengths(model, shapes_of(model, feeds))),
                            {build.level, build.threads}, number);
    } else {
      result = worker_.load(*part.file, {build.level, build.threads}, number);
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
    if (!station || !station->worker().usable()) on = Freshness::new_process;
    if (on == Freshness::new_process && !start(station))
      return {{CallStatus::timeout, "the time is over"}, {}, on, true};
    Answer answer = station->run(part, build, feeds, room, on != Freshness::kept);
    answer.on = std::max(answer.on, on);
    if (station->note()) notes_.emplace(build.level, *station->note());
    return answer;
  }

  void answer_by(std::optional<Clock::time_point> end) override {
    end_ = end;
    for (auto& [level, station] : stations_)
      if (station) station->answer_by(end);
  }

 private:
  // False where the end comes first.
  bool start(std::unique_ptr<Station>& station) {
    WorkerCommand command = command_;
    const auto left = [this] {
      return std::chrono::duration_cast<std::chrono::milliseconds>(*end_ - Clock::now()) + std::chrono::milliseconds(1);
    };
    if (end_) command.limits.start = std::min(command.limits.start, std::max(left(), std::chrono::milliseconds(1)));
    try {
      station = std::make_unique<Station>(command);
    } catch (const Error&) {
      if (end_ && Clock::now() >= *end_) return false;
      throw;
    }
    station->answer_by(end_);
    return true;
  }

  WorkerCommand command_;
  RuntimeInfo info_;
  std::optional<Clock::time_point> end_;
  std::map<std::string, std::unique_ptr<Station>> stations_;  // by level
  std::map<std::string, std::string> notes_;                  // likewise
};

Part part(std::shared_ptr<const std::string> file, std::unique_ptr<const graph::Program> program) {
  const std::uint64_t key = std::hash<std::string>()(*file);
  return {std::move(file), key, std::move(program)};
}

}  // namespace

Part part_of_file(std::string bytes, std::string_view name) {
  const auto file = std::make_shared<const std::string>(std::move(bytes));
  graph::Model model = graph::read_model(file, name);
  const auto check = [&](std::string_view what, const std::string& of, std::optional<graph::Type> type) {
    if (type && !graph::is_exchanged(*type))
      throw usage_error(
          fmt::format("{}: {} '{}' is of type {}, which no runtime's tensors in Python have: cast it within "
                      "the model",
                      name, what, of, graph::name(*type)));
  };
  for (const graph::Input& input : model.inputs) check("input", input.name, input.type);
  for (const graph::Output& output : model.outputs) check("output", output.name, output.said);
  return part(file, std::make_unique<graph::Program>(std::move(model)));
}

Part part_of_model(const graph::Model& model) {
  return part(std::make_shared<const std::string>(graph::write_model(model)), std::make_unique<graph::Program>(model));
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
