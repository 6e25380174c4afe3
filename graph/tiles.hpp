#pragma once
#include "core/index.hpp"

namespace attest::graph {

inline constexpr Index strip_columns = 16;

// Rows of a times a block of a matrix that lies in strips of [k, strip_columns].
struct Block {
  const double* a;  // [m, k], rows a_step apart
  Index a_step;
  const double* strips;
  double* out;  // [m, columns], rows out_step apart
  Index out_step;
  Index m, k, columns;
  bool onto;  // `out` holds the sums of the blocks above; else anything
};

// Each element is added up in the order of k, each product rounded before: the same bits on every processor.
void multiply_apart(const Block& block) noexcept;
// The same bits where all products are exact in float64, whether a processor fuses them with their sums or not.
void multiply_exact(const Block& block) noexcept;

}  // namespace attest::graph
