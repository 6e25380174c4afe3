#pragma once
#include <cstdint>

#include "core/tensor.hpp"
#include "oracle/lanes.hpp"

namespace attest::oracle::layer_norm {

// Arrays hold whole lanes; what lies behind the n numbers that count is finite.
struct RowSums {
  double magnitudes, largest;  // of |x|
  double sum, squares;         // of x - pivot
};

// What accept_row() holds an element to: |got - y|, the reference's own error included, is at most the radius that is proven
// without a sort. Of the normalised value t the radius is constant + proportional |t|. gamma has its offset.
struct AcceptRowRule {
  double mean, scale;  // of the reference
  double constant, proportional;
  double u_affine;            // of a sum with a beta that is not 0
  double largest_beta_error;  // of the reference's own sum, over all columns
  double u_out, eta_out, largest_out;
};

// The loops over a row, one instance per instruction set, as oracle/loops.hpp has those of attention.
template <class L>
struct RowLoops {
  static RowSums sums(const double* x, Index n, double pivot);
  // Bit i mod 8 of accepted[i / 8] is set where element i is inside; whether all are.
  static bool accept(const AcceptRowRule& rule, const double* x, const double* gamma, const double* beta,
                     const double* got, Index n, std::uint8_t* accepted);
};

RowSums row_sums(const double* x, Index n, double pivot);
bool accept_row(const AcceptRowRule& rule, const double* x, const double* gamma, const double* beta, const double* got,
                Index n, std::uint8_t* accepted);

}  // namespace attest::oracle::layer_norm
