#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/problem.hpp"
#include "models/laws.hpp"
#include "models/localise.hpp"

namespace attest::models {

// A part of a graph that is an operation, or looks like one.
struct KnownPart {
  std::string operation;  // "attention", "layer_norm" or "mha"
  std::string tensor;     // the one that it gives
  std::size_t nodes = 0;  // those that it is made of; 0 of what only looks like one
  std::string skipped;    // the reason to hold it to no proven bound; empty: it is held
};
// The parts in the order of operations, and of evaluation. One small problem with right numbers shows if a part can be
// judged.
std::vector<KnownPart> known_parts(const graph::Family& family, const graph::Precision& precision);

// The law `proven-bound` (docs/graphs.md section 6): parts of the graph that are an operation (ops/subgraph.hpp), of
// which the problem's seed picks one, and one whole block, asked by themselves, fed with right numbers, and held to the
// bound that is proven of them.
LawResult proven_bound(const Asking& asking, const std::vector<graph::Array>& whole);

// The same of the part that gives a tensor, whichever the seed picks; skipped where none does.
LawResult proven_bound_of(const Asking& asking, std::string_view tensor);

// The place of a failure after what came before: the part, which is its own segment, since it was fed with right
// tensors, unless it fails after other calls than its own alone. nullopt where it holds.
std::optional<Place> part_that_fails(const Asking& asking, std::span<const EarlierCall> before = {});
// True if two tensors are results of parts that are alike, operator by operator.
bool parts_are_alike(const graph::Model& model, std::string_view a, std::string_view b);
// Tells whether the part that fails on this problem is spelt, operator by operator, as the one that gives `tensor`:
// they are taken for one defect.
bool picks_one_like(const Asking& asking, std::string_view tensor);

}  // namespace attest::models
