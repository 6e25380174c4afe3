#pragma once
#include <vector>

#include "graph/program.hpp"

namespace attest::graph {

// What the numbers of an input stand for, as far as the graph shows it: which of them make sense to be drawn.
enum class Role : std::uint8_t {
  floats,   // any
  addend,   // floats that are added to what a Softmax takes: perhaps a mask of 0 and large negative numbers
  flags,    // booleans, or integers that become floats or booleans: 0 and 1
  ids,      // rows of a table
  lengths,  // compared with positions
};
struct Use {
  Role role = Role::floats;
  Index count = 0;  // of ids: rows of the smallest table
};

// Of each input, in the model's order. Throws Error(usage) for an integer input of which the graph does not show what its numbers may
// be: one that sets shapes, looks up a table of computed length, or none of what Role lists.
std::vector<Use> uses_of_inputs(const Program& program);

}  // namespace attest::graph
