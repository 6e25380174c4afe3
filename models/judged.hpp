#pragma once
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "core/npz.hpp"
#include "graph/ensemble.hpp"
#include "models/entry.hpp"
#include "models/runtime.hpp"

// Results of a model that were got elsewhere, held against the ensemble of docs/graphs.md section 3.
namespace attest::models {

struct JudgedOutput {
  std::string name;
  std::vector<Index> shape;
  Index elements = 0, judged = 0;                  // the rest is undetermined
  Index wrong = 0;                                 // elements past failing_z; integers that differ
  std::optional<graph::Witness> first{}, worst{};  // the first wrong element, row-major; the worst of all judged
  double z = 0;                                    // the worst element's
};

struct JudgedOutputs {
  graph::Judgement verdict;  // the one on all of them
  std::vector<JudgedOutput> outputs;
  std::vector<std::string> absent;  // outputs of the model that were not given

  // The exit status: 1 where it failed, 5 where nothing was judged.
  [[nodiscard]] Exit exit() const noexcept;
};

// Judges `outputs`, some or all of the model's by their names, bf16 as uint16. Throws Error(usage), one sentence with
// `where`: for none of them, and for a type or a shape that the model does not give on `feeds`; and as Program::run.
JudgedOutputs judge_outputs(const graph::Model& model, const graph::Feeds& feeds, std::span<const NamedArray> outputs,
                            const graph::Precision& precision, const std::string& where);

// Results that failed, as they were judged.
struct SavedFailure {
  std::filesystem::path model;  // its file
  const std::string& bytes;     // of that, with its weights
  const graph::Feeds& feeds;
  std::span<const NamedArray> outputs;
  const graph::Precision& precision;
  std::filesystem::path where;  // the file that held the outputs
};
// Stores a failure in `corpus` and returns the file; inputs and results lie beside it as an .npz. Throws Error(usage),
// one sentence, where that cannot be written, or a runtime that gave these results would not be blamed.
std::filesystem::path store_judged(const SavedFailure& failure, const std::filesystem::path& corpus);

// A runtime that gives what such an entry holds, whatever it is asked. Throws Error(no_subject) where that file is not
// there or has changed.
std::unique_ptr<Runtime> saved_runtime(const Entry& entry);
// The model, with those of its outputs alone that such an entry holds. Throws likewise.
Part with_saved_outputs(Part model, const Entry& entry);

}  // namespace attest::models
