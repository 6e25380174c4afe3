#pragma once
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/learn.hpp"
#include "graph/problem.hpp"

// Learns the condition under which a failure shows: applies the engine's learner to the problems of a model.
namespace attest::models {

// The traits of a problem: its sizes, which of two is larger, remainders of sizes, and how each input is made. A table
// for engine::learn.
class Fields {
 public:
  explicit Fields(const graph::Family& family);
  [[nodiscard]] std::span<const engine::Trait> traits() const noexcept { return traits_; }
  [[nodiscard]] engine::Row row(const graph::Problem& problem) const;

 private:
  struct Input {
    std::string name;
    std::vector<graph::Regime> regimes;
    std::vector<std::string_view> labels;
  };
  std::vector<std::string> axes_;
  std::vector<Input> inputs_;
  std::vector<engine::Trait> traits_;
};

// A predicate as text, "size.length>=5 && values.mask!=all", and its counts over the campaign's runs. Without a text
// none was found: `failing` of all runs `asked` failed.
struct Condition {
  std::string text;
  engine::Separation counts;
};

// One run: a problem, put to one level of one subject.
struct Run {
  std::size_t problem = 0;  // in the table
  std::size_t subject = 0;
  std::string_view level;  // lives as long as the table
  std::uint32_t held = 0;  // laws, by position in all_laws()
  int finding = -1;        // the finding that its failure belongs to
};

// The runs of a campaign, as far as they are needed to learn from: those of its first problems.
class RunTable {
 public:
  static constexpr std::size_t most_problems = 50'000;

  explicit RunTable(const graph::Family& family) : fields_(family) {}
  [[nodiscard]] bool full() const noexcept { return problems_.size() == most_problems; }
  // The number of a problem, for its runs.
  std::size_t add(const graph::Problem& problem);
  void add(const Run& run) { runs_.push_back(run); }

  struct Asked {
    int finding = 0;
    std::size_t subject = 0, law = 0;
    std::span<const std::string> levels;  // at which it fails
    const graph::Problem& smallest;
    std::span<const graph::Problem> neighbours;  // neighbours of `smallest` that pass
  };
  // Learns the condition that separates the runs that failed so from those of the same subject and levels whose law
  // held. If there are fewer failures than are enough to learn from, it learns from the smallest problem and its
  // neighbours. Without text where nothing tells them apart.
  [[nodiscard]] Condition learn(const Asked& asked) const;

 private:
  Fields fields_;
  std::vector<engine::Row> problems_;
  std::vector<Run> runs_;
};

}  // namespace attest::models
