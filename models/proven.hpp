#pragma once
#include <optional>
#include <string_view>
#include <vector>

#include "models/laws.hpp"
#include "models/localise.hpp"

namespace attest::models {

// The law `proven-bound` (docs/graphs.md section 6): parts of the graph that are an operation (ops/subgraph.hpp), one of which the problem's seed picks, asked by
// themselves, fed with right numbers, and held to the bound that is proven of them.
LawResult proven_bound(const Asking& asking, const std::vector<graph::Array>& whole);

// Where it fails: the part, which is its own segment, since it was fed with right tensors. nullopt where it holds.
std::optional<Place> part_that_fails(const Asking& asking);
// Whether the part that the problem picks is spelt, operator by operator, as the one that gives `tensor`: they are taken for one defect.
bool picks_one_like(const Asking& asking, std::string_view tensor);

}  // namespace attest::models
