#pragma once
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/mha/inputs.hpp"
#include "core/mha/offer.hpp"
#include "ops/op.hpp"

// The parts of the operation, each in the file of its name. Problems here are mha's own.
namespace attest::ops::of_mha {

using attest::mha::Contract;
using attest::mha::Field;
using attest::mha::Policy;
using attest::mha::Problem;
using attest::mha::Supports;

// ---- shrink.cpp
using Dimension = DimensionOf<Problem, Supports>;
const std::vector<Dimension>& dimensions();
Problem capped(Problem problem, Index most, const std::optional<Witness>& witness, const Supports& supports);
Problem sliced(Problem problem, Index samples, const Witness& witness, const Supports& supports);
void fit(const Problem& from, Problem& to, const Supports& supports);
// Other weights, and those of the `original`.
std::vector<ops::Escape> escapes(const Problem& shape, const Problem& original);
Problem sampled(Problem problem);
// Problems with edits removed; with rows of a tensor, then single elements, set to zero.
std::vector<Candidate> with_zeroed_elements(const ops::Problem& problem);

// ---- domain.cpp
std::unique_ptr<Domain> domain(const Supports& supports, std::vector<Format> dtypes);
std::vector<ops::Problem> canaries(const Supports& supports, Format dtype);

// ---- grading.cpp
const Grading& grading();

// ---- reading.cpp
std::unique_ptr<Reading> reading(const attest_mha& call);

// ---- trial.cpp: guards, the bound of stages, exact laws, the bound of out, the ensemble, two subjects
bool is_stage_bound(const Law& law);
std::vector<Law> laws(const Op& op);
std::optional<std::string> not_applicable(const Law& law, const Problem& problem, const Contract& contract,
                                          const Supports& supports);
std::unique_ptr<Trial> trial(const Problem& problem, const Contract& contract, Subject& subject, Subject* peer);

// ---- asked.cpp
// The result of a block, and the damage it did to memory that is not its own.
struct Answer {
  Tensor out;
  CallResult call;
  std::optional<Evidence> violation;
};
// One call, of stages too where they are given; the subject is not asked what it declines. Adds to `calls`, and
// nanoseconds to `elapsed`.
Answer asked(Subject& subject, const attest::mha::Inputs& inputs, const attest::mha::StageOutputs& stages,
             std::int64_t& calls, std::int64_t& elapsed);
// Poisoned tensors for the stages that a subject gives, of a type that holds whatever the contract lets them leave; of a
// subject that is held to what its probes showed, the contract that it says itself, since it knows no other.
attest::mha::StageOutputs stages_to_ask(const Problem& problem, const Contract& contract, const SubjectInfo& info);

// ---- layout.cpp
// The same problem with its tensors contiguous, or, where they are, in another layout that the subject takes, drawn
// from the seed; nullopt where it takes no other.
std::optional<Problem> in_another_layout(const Problem& problem, const Supports& supports);
// The values of `inputs` as that problem lays them out.
attest::mha::Inputs laid_as(const Problem& problem, const attest::mha::Inputs& inputs);
std::string layout_in_words(const Problem& moved);

// ---- subgraph.cpp
std::vector<std::unique_ptr<Subgraph>> subgraphs(const graph::Connections& graph);
std::vector<Unrecognised> unrecognised(const graph::Connections& graph);

// ---- compare.cpp
// The options and sizes that both subjects take.
Supports common(const Supports& a, const Supports& b);
// The same as Op::narrowed_to_both().
std::pair<SubjectInfo, SubjectInfo> narrowed_to_both(const SubjectInfo& a, const SubjectInfo& b,
                                                     const std::vector<Format>& dtypes,
                                                     const std::optional<Policy>& policy);

// ---- exchange.cpp, python.cpp, saved_call.cpp
std::unique_ptr<Exchange> exchange(const Problem& problem);
// The exchange of tensors that come from elsewhere: a call of the shape and options of `inputs.problem`, which is not
// packed. `rows`: the number of rows of out that are judged, spread evenly; 0: all.
std::unique_ptr<Exchange> exchange(attest::mha::Inputs inputs, Tensor out, attest::mha::StageOutputs stages,
                                   Index rows);
std::string options_in_words(const Exchange& exchange);
PythonReference python(const Exchange& exchange, const Contract& contract);
const std::vector<SavedWord>& saved_words();
std::vector<OtherCall> other_calls(const SavedWords& words);
SavedCall saved_call(const std::vector<NamedArray>& inputs, const std::vector<NamedArray>& outputs,
                     const Policy& policy, const SavedWords& words);
// The same as Op::saved_problem(): the whole call.
Problem saved_problem(const Exchange& saved);

}  // namespace attest::ops::of_mha
