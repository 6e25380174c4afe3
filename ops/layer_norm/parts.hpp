#pragma once
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/layer_norm/offer.hpp"
#include "ops/op.hpp"

// What the operation is made of, each part in the file of its name. Problems here are layer_norm's own.
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
// With edits removed; with rows of x, then single elements, set to zero.
std::vector<Candidate> without_edits(const ops::Problem& problem);
std::vector<Candidate> with_zeroed_elements(const ops::Problem& problem);

// ---- reading.cpp
std::unique_ptr<Reading> reading(const attest_layer_norm& call);

// ---- trial.cpp: guards and the policy bound, and behind them the laws of properties/layer_norm
std::vector<Law> laws(const Op& op);
std::optional<std::string> not_applicable(const Law& law, const Problem& problem, const Contract& contract);
std::unique_ptr<Trial> trial(const Problem& problem, const Contract& contract, Subject& subject);

}  // namespace attest::ops::of_layer_norm
