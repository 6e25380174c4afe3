#pragma once
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "models/laws.hpp"
#include "models/localise.hpp"

namespace attest::models {

// The law `proven-bound` (docs/graphs.md section 6): parts of the graph that are an operation (ops/subgraph.hpp), of which the problem's seed picks one, and one whole block, asked by
// themselves, fed with right numbers, and held to the bound that is proven of them.
LawResult proven_bound(const Asking& asking, const std::vector<graph::Array>& whole);

// The same of the part that gives a tensor, whichever the seed picks; skipped where none does.
LawResult proven_bound_of(const Asking& asking, std::string_view tensor);

// The place of a failure after what came before: the part, which is its own segment, since it was fed with right tensors, unless it fails after other calls than its own
// alone. nullopt where it holds.
std::optional<Place> part_that_fails(const Asking& asking, std::span<const EarlierCall> before = {});
// True if two tensors are results of parts that are alike, operator by operator.
bool parts_are_alike(const graph::Model& model, std::string_view a, std::string_view b);
// Whether the part that fails on this problem is spelt, operator by operator, as the one that gives `tensor`: they are taken for one defect.
bool picks_one_like(const Asking& asking, std::string_view tensor);

}  // namespace attest::models
