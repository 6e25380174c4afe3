#pragma once
#include <algorithm>
#include <cctype>
#include <chrono>
#include <functional>
#include <map>
#include <string>

#include "graph/emulated.hpp"
#include "models/runtime.hpp"
#include "tests/graph/faults.hpp"

namespace attest::models::test {

inline const graph::test::Fault& fault(const std::string& name) {
  for (const auto& one : graph::test::faults())
    if (one.name == name) return one;
  throw std::runtime_error(name);
}

// A runtime of attest's own: "sound" rounds every result to nearest, "faulty" computes a graph with a planted fault in
// place of the one that it is given. Hooks change what comes back.
class Planted final : public Runtime {
 public:
  explicit Planted(std::function<std::optional<graph::Model>(const graph::Model&)> plant = {})
      : plant_(std::move(plant)) {}

  [[nodiscard]] const RuntimeInfo& info() const noexcept override { return info_; }

  Answer run(const Part& part, const Build& build, const graph::Feeds& feeds, std::size_t room, Freshness on) override {
    ++runs;
    if (on == Freshness::new_process) asked_in_process = 0;
    ++asked_in_process;
    if (before) {
      const CallResult result = before(part, build, feeds, on);
      if (result.status != CallStatus::done) return {result, {}};
    }
    const graph::Model& model = part.program->model();
    const auto faulty =
        build.level == "faulty" && plant_ && !has_weights_as_inputs(model) ? plant_(model) : std::nullopt;
    Answer answer{{}, results_by(graph::Program(faulty ? *faulty : model), feeds, *arithmetic_, {})};
    std::size_t bytes = 0;
    for (const graph::Array& one : answer.outputs) bytes += static_cast<std::size_t>(one.size());
    if (bytes > room) answer.result = {CallStatus::error, "the room is too small"};
    if (after) after(part, build, feeds, on, answer);
    return answer;
  }

  void answer_by(std::optional<std::chrono::steady_clock::time_point> end) override { until = end; }
  std::optional<std::chrono::steady_clock::time_point> until;
  std::function<CallResult(const Part&, const Build&, const graph::Feeds&, Freshness)> before;
  std::function<void(const Part&, const Build&, const graph::Feeds&, Freshness, Answer&)> after;
  void take_layouts(std::vector<InputLayout> layouts) { info_.layouts = std::move(layouts); }
  int runs = 0, asked_in_process = 0;

 private:
  // Faults are planted by what is a constant and what is not.
  static bool has_weights_as_inputs(const graph::Model& model) {
    return std::ranges::any_of(model.inputs, [&model](const graph::Input& input) {
      return input.name.size() > 1 && input.name.starts_with('c') &&
             std::isdigit(static_cast<unsigned char>(input.name[1])) != 0;
    });
  }

  RuntimeInfo info_{"planted", "1", {"sound", "faulty"}, {other_layouts.begin(), other_layouts.end()}};
  std::function<std::optional<graph::Model>(const graph::Model&)> plant_;
  std::unique_ptr<graph::Arithmetic> arithmetic_ = graph::nearest();
};

}  // namespace attest::models::test
