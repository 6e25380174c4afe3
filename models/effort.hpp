#pragma once
#include "graph/problem.hpp"

namespace attest::models {

// The sizes that problems of a model may have.
struct Effort {
  Index small = 512, large = Index{1} << 14;  // elements of an input: of most problems, and of some
};

// The most elements that keep an evaluation within 2^28 multiply-adds (large: 2^30), `largest` at most: most problems
// of a transformer of 20 million weights have few tokens in all, so that a verdict takes a second and not minutes. Work
// is counted on short axes, and carried on from there: the same for every machine.
Effort effort_for(const graph::Family& family, Index largest);

}  // namespace attest::models
