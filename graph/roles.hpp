#pragma once
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "graph/program.hpp"

namespace attest::graph {

// The meaning of an input's numbers, as far as the graph shows it: it says which of them make sense to be drawn.
enum class Role : std::uint8_t {
  floats,   // any
  addend,   // floats that are added to what a Softmax takes: perhaps a mask of 0 and large negative numbers
  flags,    // booleans, or integers that become floats or booleans: 0 and 1
  ids,      // rows of a table
  lengths,  // compared with positions
  numbers,  // integers that are computed with, and are none of these
  given,    // integers of which the graph shows nothing, and that its owner hands over
};
struct Use {
  Role role = Role::floats;
  Index count = 0;       // rows of the smallest table, of ids
  bool divisor = false;  // for numbers: something may be divided by them, so that 0 is none
};

// The use of each input, in the model's order; `said` goes before the graph's own signs. Throws Error(usage) for an
// input in `said` that the model has not or whose type it does not fit. Throws Error(usage) for an integer input whose
// numbers the graph does not explain: one that sets shapes, looks up a table of computed length, or is read by no
// operator that Role explains; Role::given where its numbers are handed over.
std::vector<Use> uses_of_inputs(const Program& program, const std::map<std::string, Use, std::less<>>& said = {},
                                bool handed_over = false);

}  // namespace attest::graph
