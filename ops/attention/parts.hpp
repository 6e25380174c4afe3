#pragma once
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/field.hpp"
#include "core/problem.hpp"
#include "core/subject.hpp"
#include "ops/op.hpp"

// The parts of the operation, each in the file of its name. Problems here are attention's own.
namespace attest::ops::of_attention {

using attest::Contract;
using attest::Field;
using attest::Policy;
using attest::Problem;
using attest::Supports;

// ---- dimensions.cpp: the dimensions of a problem, and how it is cut along them
using Dimension = DimensionOf<Problem, Supports>;
const std::vector<Dimension>& dimensions();
Problem capped(Problem problem, Index most, const std::optional<Witness>& witness, const Supports& supports);
Problem sliced(Problem problem, Index samples, const Witness& witness, const Supports& supports);

// ---- undeclared.cpp
// Says how many rows, in the sizes that models have, a subject that declares no policy can fail, and which options
// would sharpen its contract: a line for each dtype of 16 bits.
std::string undeclared_reach(const SubjectInfo& info);

// ---- fit.cpp
void fit(const Problem& from, Problem& to, const Supports& supports);

// ---- elements.cpp
// A tiny problem with rows of q, k and v, then single elements, set to zero by edits. Empty for larger problems, for
// tensors that lie in memory otherwise than contiguously, and for elements that are 0 or 1 already.
std::vector<std::pair<Problem, std::string>> zeroed_elements(const Problem& problem);
// A problem on captured activations as one that stands alone: q, k and v zero but for an edit per element. nullopt for
// other problems, and for one with more than `most` elements of q, k and v.
std::optional<Problem> literal(const Problem& problem, Index most);
inline constexpr Index most_shrunk_literals = 128;

// ---- escapes.cpp
struct Escape {
  Problem problem;
  std::string change;
  bool drawn, likely;
};
// Other values, those of the `original`, its scale and log-sum-exp if it has them (by which a single key tells scores
// and weights apart), masks of the same kind that close whole rows.
std::vector<Escape> escapes(const Problem& shape, const Problem& original);
Problem sampled(Problem problem);

// ---- traits.cpp
std::vector<Trait> traits();

// ---- recorded.cpp
// The problem that a call shows: its shapes, options, tensors, layouts and, set by hand, every number in them. A call
// does not tell the kinds of mask, bias, lengths and values; they are those of `like`, if it is given and has them.
// `values`: q, k and v are told. Returns nullopt where more than 4,096 numbers would be, or 3 * 2^19 without `like`.
std::optional<Problem> recorded(const attest_attention& call, const Problem* like = nullptr, bool values = true);

// ---- subgraph.cpp
std::vector<std::unique_ptr<Subgraph>> subgraphs(const graph::Connections& graph);
std::vector<Unrecognised> unrecognised(const graph::Connections& graph);

// ---- canaries.cpp
std::vector<Problem> canaries(const Supports& supports, Format dtype);

// ---- domain.cpp
std::unique_ptr<Domain> domain(const Supports& supports, std::vector<Format> dtypes);

// ---- compare.cpp
// The options and sizes that both subjects take. A form counts where both offer it with the same values in the same
// order; the other forms are said by the first value of each subject.
Supports common(const Supports& a, const Supports& b);
// The same as Op::narrowed_to_both().
std::pair<SubjectInfo, SubjectInfo> narrowed_to_both(const SubjectInfo& a, const SubjectInfo& b,
                                                     const std::vector<Format>& dtypes,
                                                     const std::optional<Policy>& policy);

// ---- exchange.cpp, python.cpp
std::unique_ptr<Exchange> exchange(const Problem& problem);
std::string options_in_words(const Exchange& exchange);
// An input by its name; nullptr where the call has none such.
const Tensor* input_of(const Exchange& exchange, std::string_view name);
PythonReference python(const Exchange& exchange, const Contract& contract);
// ---- graphs.cpp
std::vector<NamedGraph> graphs(const Exchange& exchange, const Contract& contract);
// ---- reading.cpp, and variants.cpp for the other calls that it knows
std::unique_ptr<Reading> reading(const attest_attention& call);
// The same as Op::isolated_stage().
std::string_view isolated_stage(std::string_view law, const Problem& problem, const Contract& contract,
                                const Verdict& verdict);
// Other promises than a contract, of which ops/mha makes some of its own.
std::vector<Departure> contract_departures(const Contract& declared);

// ---- grading.cpp
const Grading& grading();

// ---- trial.cpp: the laws of properties/, and narrow-stage
std::vector<Law> laws(const Op& op);
std::optional<std::string> not_applicable(const Law& law, const Problem& problem, const Contract& contract,
                                          const SubjectInfo& info);
std::unique_ptr<Trial> trial(const Problem& problem, const Contract& contract, attest::Subject& subject,
                             attest::Subject* peer);

}  // namespace attest::ops::of_attention
