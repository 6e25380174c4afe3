#pragma once
#include <span>
#include <vector>

#include "graph/model.hpp"

namespace attest::graph {

// Parts of a graph. Values keep their numbers and names; nodes, constants and inputs that nothing needs are left out.

// The graph as far as `value`, which a node gives, is its only output.
Model prefix(const Model& model, int value);

// An input that takes the place of `value`. It has the type and number of axes of `like`, and open lengths.
Input input_in_place_of(const Model& model, int value, const Array& like);

// The nodes that give `value` from the values of `fed`, which become inputs. Values that these do not reach come from
// the model's own inputs and constants.
Model segment(const Model& model, std::span<const Input> fed, int value);

// The graph with lengths of `shapes` (by input, in the model's order) in place of open ones.
Model with_fixed_lengths(Model model, std::span<const std::vector<Index>> shapes);

// The node that gives `value`; nullptr where none does.
const Node* giver_of(const Model& model, int value);
// The values that nodes give, in the order of evaluation.
std::vector<int> computed_values(const Model& model);
// The values on which `value` depends, itself among them, by number.
std::vector<bool> needed_for(const Model& model, int value);

}  // namespace attest::graph
