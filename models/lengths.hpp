#pragma once
#include "graph/constraints.hpp"
#include "graph/program.hpp"

namespace attest::models {

// `said`, and lengths of the open axes behind the first of an input of which it says nothing, where the graph refuses
// short ones or all but multiples: windows of a convolution, or halves that must fit each other. They are the first
// power of two that the graph takes, itself and twice, for as few axes as will do, and from there on all lengths where
// it takes the next two as well, else multiples. A length that contradicts shapes which the file states is not taken.
// Nothing is added where the graph takes 1, 2 and 3, none of these, or is too large for such trials.
graph::Constraints with_lengths_taken(const graph::Program& program, graph::Constraints said);

}  // namespace attest::models
