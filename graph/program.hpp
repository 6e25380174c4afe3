#pragma once
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "graph/arithmetic.hpp"
#include "graph/model.hpp"
#include "graph/precision.hpp"

namespace attest::graph {

// The inputs of a model, by name, one lane each.
using Feeds = std::map<std::string, Array, std::less<>>;

// The entries of `all` that are inputs of `model`; each input is there.
Feeds feeds_of(const Model& model, const Feeds& all);

// The most elements that a graph may make of one tensor, all lanes together.
inline constexpr Index most_elements = Index{1} << 27;

// Thrown where an evaluation, or what waits for a runtime, is told to stop.
struct Stopped {};

// A model that can be evaluated. It may be shared between threads.
class Program {
 public:
  // Throws Error(usage): every operator that attest does not evaluate, with its first node, and what can be done.
  explicit Program(Model model, Index most = most_elements);

  [[nodiscard]] const Model& model() const noexcept { return model_; }

  // The outputs in the model's order, each with one lane or as many as `lanes` has, computed as `precision` has it by
  // the arithmetic of each lane. The first lane must be exact(); it alone knows nothing of formats. Throws Error(usage)
  // where an input is missing, unknown, or not of the type and shape that the model states, where shapes within the
  // graph do not go together, and where a tensor would have more than `most` elements; Stopped once `stop`, which is
  // asked before each node, says so.
  [[nodiscard]] std::vector<Array> run(const Feeds& feeds, std::span<const Arithmetic* const> lanes,
                                       const Precision& precision, const std::function<bool()>& stop = {}) const;
  // The reference alone: one lane, float64.
  [[nodiscard]] std::vector<Array> run(const Feeds& feeds) const;
  // Facts of an exact evaluation.
  struct Seen {
    double work = 0;  // elements that it makes, times the terms of each where they are products of matrices
    // The contradiction between it and a shape that the file states, which a runtime need not take ("all values with
    // the same string should equate to the same size", as ONNX Runtime has it); empty where there is none.
    std::string contradiction;
  };
  // Throws as run().
  [[nodiscard]] Seen seen(const Feeds& feeds) const;

 private:
  std::vector<Array> run(const Feeds& feeds, std::span<const Arithmetic* const> lanes, const Precision& precision,
                         const std::function<bool()>& stop, Seen* seen) const;
  std::vector<Array> run_exactly(const Feeds& feeds, Seen* seen) const;

  Model model_;
  Index most_;
  std::vector<bool> folded_;           // one a node, see folded_nodes()
  std::vector<std::size_t> last_use_;  // by value: the node after which nothing reads it
};

}  // namespace attest::graph
