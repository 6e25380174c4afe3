#pragma once
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/layer_norm/inputs.hpp"
#include "core/layer_norm/offer.hpp"
#include "ops/op.hpp"

// The parts of the operation, each in the file of its name. Problems here are layer_norm's own.
namespace attest::ops::of_layer_norm {

using attest::layer_norm::Contract;
using attest::layer_norm::Field;
using attest::layer_norm::Policy;
using attest::layer_norm::Problem;
using attest::layer_norm::Supports;

// ---- shrink.cpp
using Dimension = DimensionOf<Problem, Supports>;
const std::vector<Dimension>& dimensions();
Problem capped(Problem problem, Index most, const std::optional<Witness>& witness, const Supports& supports);
Problem sliced(Problem problem, Index samples, const Witness& witness, const Supports& supports);
void fit(Problem& problem, const Supports& supports);
// Other values, and those of the `original`.
std::vector<ops::Escape> escapes(const Problem& shape, const Problem& original);
// Problems with edits removed; with rows of x, then single elements, set to zero.
std::vector<Candidate> with_zeroed_elements(const ops::Problem& problem);

// ---- compare.cpp
// The options and sizes that both subjects take.
Supports common(const Supports& a, const Supports& b);
// The same as Op::narrowed_to_both().
std::pair<SubjectInfo, SubjectInfo> narrowed_to_both(const SubjectInfo& a, const SubjectInfo& b,
                                                     const std::vector<Format>& dtypes,
                                                     const std::optional<Policy>& policy);

// ---- exchange.cpp, python.cpp, saved_call.cpp
std::unique_ptr<Exchange> exchange(const Problem& problem);
// The exchange of tensors that come from elsewhere: a call of the shape and options of `problem`.
std::unique_ptr<Exchange> exchange(const Problem& problem, attest::layer_norm::Inputs inputs, Tensor out,
                                   Tensor sum_out);
std::string options_in_words(const Exchange& exchange);
PythonReference python(const Exchange& exchange, const Contract& contract);
const std::vector<SavedWord>& saved_words();
std::vector<OtherCall> other_calls(const SavedWords& words);
SavedCall saved_call(const std::vector<NamedArray>& inputs, const std::vector<NamedArray>& outputs,
                     const Policy& policy, const SavedWords& words);
// The same as Op::saved_problem().
Problem saved_problem(const Exchange& saved, Evidence& witness);
// ---- subgraph.cpp
std::vector<std::unique_ptr<Subgraph>> subgraphs(const graph::Connections& graph);
std::vector<Unrecognised> unrecognised(const graph::Connections& graph);
// ---- reading.cpp
std::unique_ptr<Reading> reading(const attest_layer_norm& call);

// ---- grading.cpp
const Grading& grading();

// ---- trial.cpp: guards and the policy bound, behind them the laws of properties/layer_norm, and the ensemble
std::vector<Law> laws(const Op& op);
std::optional<std::string> not_applicable(const Law& law, const Problem& problem, const Contract& contract);
std::unique_ptr<Trial> trial(const Problem& problem, const Contract& contract, Subject& subject, Subject* peer);

}  // namespace attest::ops::of_layer_norm
