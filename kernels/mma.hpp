#pragma once
#include <vector>

#include "core/mma.hpp"
#include "core/tensor.hpp"

// Block products as tensor cores make them (docs/bounds.md, section 4c).
namespace attest::kernels {

class MmaUnit {
 public:
  // Sums go to `accumulator`; the exponent of a factor is never below that of the smallest normal number of `operand`.
  MmaUnit(const Mma& mma, Format accumulator, Format operand) noexcept
      : mma_(mma), accumulator_(accumulator), least_factor_(min_exponent(operand)) {}

  // c and the sum of a[t * stride_a] b[t * stride_b], t below `products`, as one block. Factors have at most 24 bits.
  [[nodiscard]] double block(double c, const double* a, Index stride_a, const double* b, Index stride_b,
                             Index products) const noexcept;
  // The same in blocks of `size` products, one after another, the last of what is left.
  [[nodiscard]] double chain(double c, const double* a, Index stride_a, const double* b, Index stride_b, Index products,
                             Index size) const noexcept;

 private:
  [[nodiscard]] double rounded(double sum) const noexcept;

  Mma mma_;
  Format accumulator_;
  int least_factor_;
};

}  // namespace attest::kernels
