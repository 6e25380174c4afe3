#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/ensemble.hpp"

namespace attest::graph {

// Results of one problem that should agree, of two levels, builds or batches, differ by so many of the ensemble's
// deviations at most; conforming runtimes by about half (docs/graphs.md section 6).
inline constexpr double agreeing_deviations = 8;
// The most deviations apart where the reference gives the same twice: float64 in another order is far below a
// deviation.
inline constexpr double no_deviation = 1e-3;

// The distance of two results of one problem.
struct Difference {
  bool bits = true;       // equal, or NaN both
  double deviations = 0;  // the largest |a - b| / s; infinite where one is finite alone, integers differ or shapes do
  std::optional<Witness> witness;  // the element with that: `got` is b's, `expected` a's
  std::string mismatch;            // names the types or shapes that differ
};
// Elements that are undetermined (Ensemble) count for `bits` alone. Bits that are equal ask nothing of the ensemble.
// Throws as Ensemble::spreads.
Difference difference(Ensemble& ensemble, const std::vector<Array>& a, const std::vector<Array>& b);
inline bool agrees(const Difference& difference) noexcept { return difference.deviations <= agreeing_deviations; }

// The open axis that is the first of inputs and no other axis of any; nullopt where there is none such.
std::optional<std::string> batch_axis(const Model& model);
// Sample `index` of inputs along their batch axis alone.
Feeds sample(const Model& model, const Feeds& feeds, const std::string& batch, Index index);
// Results of samples one after the other along their first axis; nullopt where a result has not one sample.
std::optional<std::vector<Array>> joined(const std::vector<std::vector<Array>>& samples);

// Computes a graph.
using Runtime = std::function<std::vector<Array>(const Feeds& feeds)>;

struct BatchLaw {
  std::string not_applicable;  // why, or empty
  Difference difference;       // between the whole batch and the changed one
  std::vector<Array> other;    // the other side of it: the results of the changed batch, as the whole one has them
};
// A change of a batch that leaves its samples' results as they are.
enum class BatchChange : std::uint8_t {
  alone,       // each sample by itself
  permuted,    // the first sample comes last
  duplicated,  // the whole batch twice
  padded,      // samples of zeros behind it, as a server fills up a batch
};
inline constexpr Index padding_samples = 3;
std::string_view name(BatchChange change) noexcept;

// A sample's results do not depend on the others: asks the runtime a problem whose `whole` results are known with its
// batch changed. Not for graphs without a batch axis, batches of one sample (but to duplicate or pad it), and graphs
// whose samples do depend on each other, by the reference.
BatchLaw batch_law(BatchChange change, const Program& program, Ensemble& ensemble, const Feeds& feeds,
                   const std::vector<Array>& whole, const Runtime& runtime);
inline BatchLaw batch_alone(const Program& program, Ensemble& ensemble, const Feeds& feeds,
                            const std::vector<Array>& whole, const Runtime& runtime) {
  return batch_law(BatchChange::alone, program, ensemble, feeds, whole, runtime);
}

}  // namespace attest::graph
