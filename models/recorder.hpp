#pragma once
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "graph/problem.hpp"
#include "models/runtime.hpp"

namespace attest::models {

// A runtime, and the problems that its processes, and the graphs that are compiled there, were asked: a failure may
// hang on it.
class Recorder final : public Runtime {
 public:
  // `runtime` must live as long. Once `stop` says so run() throws graph::Stopped, as where an answer is cut off.
  Recorder(Runtime& runtime, std::function<bool()> stop) : runtime_(runtime), stop_(std::move(stop)) {}

  [[nodiscard]] const RuntimeInfo& info() const noexcept override { return runtime_.info(); }
  [[nodiscard]] std::string note(const std::string& level) const override { return runtime_.note(level); }
  Answer run(const Part& part, const Build& build, const graph::Feeds& feeds, std::size_t room, Freshness on) override;

  // Calls are of this problem from now on.
  void at(const graph::Problem& problem);

  // The problems before the one at hand, in order: for each graph that it was put to, the last one first, those since
  // it was compiled; then those of the level's process since it was started. Each list is there once, none is empty.
  // More than most_kept problems are cut to the first and the last ones.
  [[nodiscard]] std::vector<std::vector<graph::Problem>> histories(const std::string& level) const;

  static constexpr std::size_t most_kept = 48;

 private:
  using Asked = std::deque<std::shared_ptr<const graph::Problem>>;
  using Graph = std::pair<std::string, std::string>;  // level; graph and build
  void add(Asked& asked) const;

  Runtime& runtime_;
  std::function<bool()> stop_;
  std::shared_ptr<const graph::Problem> now_;
  std::vector<Graph> put_to_;  // graphs that the problem at hand was put to
  std::map<std::string, Asked> processes_;
  std::map<Graph, Asked> graphs_;
};

}  // namespace attest::models
