#pragma once
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "core/npz.hpp"
#include "graph/ensemble.hpp"

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

}  // namespace attest::models
