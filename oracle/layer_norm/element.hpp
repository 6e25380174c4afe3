#pragma once
#include "oracle/attention.hpp"
#include "oracle/layer_norm/statistics.hpp"
#include "oracle/outcome.hpp"

namespace attest::oracle::layer_norm {

// The inputs of one element besides its row's statistics.
struct Element {
  double x, error;  // the number that is normalised, and how far off it may be read
  Wide d;           // x - mean
  double gamma, beta;
  bool has_gamma, has_beta;
};

// The values that one element of out may have, before it is rounded to the output format (docs/layer-norm.md, section
// 4).
struct Interval {
  Enclosure enclosure;
  bool beta_ok = false;  // the variance may overflow; exactly beta is then left
  double beta = 0;
  Format affine = Format::f32;  // the format of the stage that leaves beta, at the narrowest
  bool beta_may_flush = false;

  // Tells whether `got` is what is left of beta where its stage is as wide as promised, or wider.
  [[nodiscard]] bool is_beta(double got, const Rounding& round) const;
};

Interval interval_of(const Numbers& numbers, const RowBounds& row, const Element& element);

// Returns a lower bound of the magnitude of r gamma in the forms that make this product first, where it is not 0: it
// may be subnormal where out is not. `products` includes its products with x and the mean, where the form has these.
// Returns infinity where the form makes none.
Wide least_scale(const Numbers& numbers, const RowBounds& row, const Element& element, bool products);

}  // namespace attest::oracle::layer_norm
