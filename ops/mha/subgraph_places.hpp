#pragma once
#include <optional>
#include <vector>

#include "ops/mha/subgraph.hpp"

// A block of a graph on a problem, read from its numbers: its projections, the places of their results, and its
// attention.
namespace attest::ops::of_mha {

// A projection on a problem: [tokens, inputs] to [tokens, outputs].
struct Linear {
  const graph::Array* x = nullptr;
  Index tokens = 0, inputs = 0, outputs = 0;
  std::vector<double> weight, bias;  // [outputs, inputs] and [outputs]; zeros where there is no bias

  [[nodiscard]] double at(Index token, Index input) const {
    return x->floats[static_cast<std::size_t>(token * inputs + input)];
  }
};

// Nothing where its parameters are no matrix and no row, or of another type.
std::optional<Linear> linear_of(const Projection& one, const NumbersOfValues& numbers, graph::Type type);
// x W^T + bias in float64, or the sums of magnitudes that it is made of: [tokens, outputs].
std::vector<double> products_of(const Linear& linear, bool magnitudes);

// q, k or v as attention reads it: for each sample, head by head, which token each row is and which column of the
// projection each element of a row is.
struct Source {
  Linear linear;
  std::vector<double> places;  // [samples, rows, width], of token * outputs + column
  Index rows = 0, width = 0;

  [[nodiscard]] Index place(Index sample, Index row, Index c) const {
    return static_cast<Index>(places[static_cast<std::size_t>((sample * rows + row) * width + c)]);
  }
  [[nodiscard]] std::vector<Index> tokens(Index sample) const {
    std::vector<Index> all;
    for (Index row = 0; row < rows; ++row) all.push_back(place(sample, row, 0) / linear.outputs);
    return all;
  }
  [[nodiscard]] std::vector<Index> columns(Index sample) const {
    std::vector<Index> all;
    for (Index c = 0; c < width; ++c) all.push_back(place(sample, 0, c) % linear.outputs);
    return all;
  }
  // Tells whether a row is one token and an element of a row one column, whichever row it is.
  [[nodiscard]] bool is_regular(Index samples) const {
    for (Index s = 0; s < samples; ++s) {
      const std::vector<Index> of_rows = tokens(s), of_row = columns(s);
      for (Index row = 0; row < rows; ++row)
        for (Index c = 0; c < width; ++c)
          if (place(s, row, c) !=
              of_rows[static_cast<std::size_t>(row)] * linear.outputs + of_row[static_cast<std::size_t>(c)])
            return false;
    }
    return true;
  }
};

// 0, 1, 2, ... of this shape, for moved() to move.
graph::Array numbered(const std::vector<Index>& shape);

// The attention within a block on a problem.
struct Core {
  of_attention::SpeltCall call;  // for one node too: a sample for each batch and head
  bool causal = false;
  std::optional<std::vector<double>> keep;  // the flags of a node's own mask
  std::vector<Index> order;                 // the places of its elements, in its order, within [samples, rows, dv]
};

Core core_of(const Block& block, const NumbersOfValues& numbers);

// The moved places of q, k or v (`which`) as a product of matrices, or a node, reads them: [samples, rows, width].
// nullopt where they do not broadcast.
std::optional<std::vector<double>> read_as(const Block& block, const of_attention::SpeltCall& call,
                                           const graph::Array& places, char which);

}  // namespace attest::ops::of_mha
