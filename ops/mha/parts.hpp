#pragma once
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/mha/offer.hpp"
#include "ops/op.hpp"

// What the operation is made of, each part in the file of its name. Problems here are mha's own.
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
// With edits removed; with rows of a tensor, then single elements, set to zero.
std::vector<Candidate> with_zeroed_elements(const ops::Problem& problem);

// ---- domain.cpp
std::unique_ptr<Domain> domain(const Supports& supports, std::vector<Format> dtypes);
std::vector<ops::Problem> canaries(const Supports& supports, Format dtype);

// ---- grading.cpp
const Grading& grading();

// ---- trial.cpp: guards, the bound of stages, exact laws, the bound of out
std::vector<Law> laws(const Op& op);
std::optional<std::string> not_applicable(const Law& law, const Problem& problem, const Contract& contract,
                                          const Supports& supports);
std::unique_ptr<Trial> trial(const Problem& problem, const Contract& contract, Subject& subject);

}  // namespace attest::ops::of_mha
