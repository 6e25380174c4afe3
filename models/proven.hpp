#pragma once
#include <vector>

#include "models/laws.hpp"

namespace attest::models {

// The law `proven-bound` (docs/graphs.md section 6): parts of the graph that are an operation (ops/subgraph.hpp), one of which the problem's seed picks, asked by
// themselves, fed with right numbers, and held to the bound that is proven of them.
LawResult proven_bound(const Asking& asking, const std::vector<graph::Array>& whole);

}  // namespace attest::models
