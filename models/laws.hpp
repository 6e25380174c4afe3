#pragma once
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/verdict.hpp"
#include "graph/ensemble.hpp"
#include "models/picture.hpp"
#include "models/runtime.hpp"

// The laws of a runtime on a problem of a graph (docs/graphs.md section 6).
namespace attest::models {

// A graph on inputs, and where correct results lie.
class Case {
 public:
  // `part` must live as long. Evaluates nothing yet. `stop`: as Program::run has it.
  Case(const Part& part, graph::Feeds feeds, graph::Precision precision, std::uint64_t seed,
       std::function<bool()> stop = {});
  [[nodiscard]] const Part& part() const noexcept { return part_; }
  [[nodiscard]] const graph::Feeds& feeds() const noexcept { return feeds_; }
  [[nodiscard]] graph::Ensemble& ensemble() noexcept { return ensemble_; }
  [[nodiscard]] const graph::Precision& precision() const noexcept { return precision_; }
  [[nodiscard]] std::uint64_t seed() const noexcept { return seed_; }
  // Bytes that the outputs of the whole problem hold. Throws Error(usage) as Program::run.
  std::size_t room();
  // As Program::contradiction.
  [[nodiscard]] std::string contradiction() const { return part_.program->seen(feeds_).contradiction; }

 private:
  const Part& part_;
  graph::Feeds feeds_;
  graph::Precision precision_;
  std::uint64_t seed_;
  graph::Ensemble ensemble_;
};

// The result of a law.
struct LawResult {
  VerdictKind kind = VerdictKind::pass;  // pass, fail, error, crash, timeout, skip or vacuous
  std::string reason;                    // absent for pass: one clause
  std::string
      failure_class;  // for a failure: "finite", "nan", "shape", "integers"; for an error, its message without numbers
  std::optional<graph::Witness> witness;
  double z = 0;                        // the largest distance in deviations that was judged
  std::optional<double> t;             // by `spread`
  Index judged = 0, undetermined = 0;  // by `spread`
  Index proven = 0;                    // elements that were held to a proven bound
  std::vector<Picture> pictures{};     // pictures of a failure, where they were asked for
};
// The result of a law that cannot be asked.
LawResult skipped(std::string reason);
// "spread/fail/finite": failures that have it in common are taken for one defect until something tells them apart.
std::string failure_key(std::string_view law, const LawResult& result);

// A problem as it is put to one build of a runtime.
struct Asking {
  Case& problem;
  Runtime& runtime;
  Build build;
  Freshness on = Freshness::kept;              // for the first run
  bool pictures = false;                       // whether a failure is drawn
  std::vector<graph::Array>* whole = nullptr;  // where what the first run gives is kept, besides
};

struct Law {
  std::string_view name;
  std::string_view says;  // one sentence
  // The runs that are asked: every one; some, drawn with other laws; one in four, whatever else is drawn.
  enum class Asked : std::uint8_t { always, in_turn, beside } asked = Asked::in_turn;
  // `whole`: the build's outputs on the problem, which is done.
  LawResult (*ask)(const Asking& asking, const std::vector<graph::Array>& whole);
};
// The laws in the order in which they are asked.
std::span<const Law> all_laws() noexcept;
// Throws Error(usage), listing those there are.
const Law& law_named(std::string_view name);

// Tells whether an output of an Answer came whole.
bool has_its_elements(const graph::Array& array);
// The result of the run itself: error, crash and timeout are of every law, and told of the first.
LawResult result_of(const CallResult& run);
// Runs the problem once and asks laws of it, in order. A run without results is told of the first, and the others are
// skipped; a problem that the graph does not take is skipped by all, with the sentence of Program::run. Throws as
// Runtime::run, and graph::Stopped.
std::vector<LawResult> ask(std::span<const Law* const> laws, const Asking& asking);
LawResult ask(const Law& law, const Asking& asking);

}  // namespace attest::models
