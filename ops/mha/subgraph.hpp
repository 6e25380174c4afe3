#pragma once
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ops/attention/subgraph.hpp"
#include "ops/subgraph.hpp"

// Parts of a graph that are a whole attention block: projections of q, k and v, attention, and the projection of its
// heads. The order of heads, packed projections and tokens is never read off the operators; it is found by moving
// numbers that stand for places as the graph moves its own.
namespace attest::ops::of_mha {

// Nodes between two values that move numbers and change none, as a model of its own. A node that scales all of them by
// one number is an Identity there.
struct Moves {
  int from = -1, to = -1;
  graph::Model model;                         // has one input of integers and one output
  std::vector<std::pair<int, int>> operands;  // shapes, axes and the like: as the graph numbers them, and the model
};
// The origin of each number: applies the nodes to `places`, whose shape is that of `from`. `numbers` holds the
// operands. Returns nullopt where the nodes do not take it.
std::optional<graph::Array> moved(const Moves& moves, const NumbersOfValues& numbers, graph::Array places);

// x W + bias, or x W^T + bias where `transposed`. Values are those of the graph.
struct Projection {
  int result = -1, x = -1, weight = -1, bias = -1;  // no bias: -1
  bool transposed = false;
};

struct Block {
  Projection q, k, v, out;
  Moves to_q, to_k, to_v, to_out;            // from a projection to attention, and from that to the last projection
  std::optional<of_attention::Spelt> spelt;  // attention, spelt out, with the scalings of q and k on their way;
  of_attention::Fused fused;                 // else as one node
  int heads = -1;                            // the result of attention
};

// Tells whether a correct implementation of this precision could have returned `got`. `numbers`: those of
// judged_by(block).
SubgraphVerdict verdict_on(const Block& block, const NumbersOfValues& numbers, const graph::Array& got,
                           const graph::Precision& precision);
std::vector<int> judged_by(const Block& block);

}  // namespace attest::ops::of_mha
