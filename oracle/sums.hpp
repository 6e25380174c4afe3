#pragma once
#include <algorithm>
#include <cmath>

#include "core/contract.hpp"

namespace attest::oracle {

// The losses of the sums of tensor cores (docs/bounds.md, section 4c), relative to the sum of magnitudes: `product` for
// each product, `first` instead for one of each block. All are 0 where additions are rounded one by one.
struct BlockSums {
  double product = 0, first = 0;
  double smallest = 0;  // the smallest normal number of the accumulator: below it errors are relative to it
  double cut = 0;       // the cut of one term, relative to a product's exponents
  double kept = 0;      // 1 if the largest term of a block may be cut, too

  // Takes products of so many fraction bits. `u`: the accumulator's unit roundoff; `singly`: some of them may be added
  // one by one.
  BlockSums() = default;
  BlockSums(const Mma& mma, Format accumulator, int product_bits, double u, bool singly) {
    if (!adds_blocks_in(mma, accumulator)) return;
    const Format out = format_of(mma.out);
    const int there = std::max(precision(accumulator), precision(out)) - 1;
    const double result = std::ldexp(1.0, -fraction_bits(mma.out));
    cut = std::ldexp(1.0, -mma.frac);
    kept = std::max(product_bits, there) > mma.frac ? 1 : 0;
    const bool to_nearest = mma.out == MmaResult::f16;
    const double u_out = u / unit_roundoff(accumulator) * unit_roundoff(out);
    // Where the rest of a sum is cut away, what its alignment has cut is none of it.
    first = to_nearest ? cut + u_out : std::max(cut, result);
    first += kept * cut + (there > mma.frac ? cut : 0) + (narrower(accumulator, out) ? u : 0);
    product = singly ? std::max(cut, u) : cut;
    smallest = smallest_normal(accumulator);
  }

  [[nodiscard]] bool any() const { return first > 0; }
  [[nodiscard]] double relative(double products, double blocks) const {
    return (products - blocks) * product + blocks * first;
  }
  // Returns the loss where factors are subnormal, whose exponents are those of the smallest normal number of their
  // format: in units of the other factor.
  [[nodiscard]] double aligned(double products, double blocks, double smallest_factor) const {
    return 2 * (products + kept * blocks) * cut * smallest_factor;
  }
};

}  // namespace attest::oracle
