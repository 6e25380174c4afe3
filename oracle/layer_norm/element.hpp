#pragma once
#include "oracle/attention.hpp"
#include "oracle/layer_norm/statistics.hpp"
#include "oracle/outcome.hpp"

namespace attest::oracle::layer_norm {

// What is known of one element besides its row's statistics.
struct Element {
  double x, error;  // what is normalised, and how far off it may be read
  Wide d;           // x - mean
  double gamma, beta;
  bool has_gamma, has_beta;
};

// What one element of out could be, before it is rounded to the output format (docs/layer-norm.md, section 4).
struct Interval {
  Enclosure enclosure;
  bool beta_ok = false;  // the variance may overflow, and then exactly beta is what is left
  double beta = 0;
  Format affine = Format::f32;  // of the stage that leaves it, at the narrowest
  bool beta_may_flush = false;

  // Whether `got` is what is left of beta where its stage is as wide as promised, or wider.
  [[nodiscard]] bool is_beta(double got, const Rounding& round) const;
};

Interval interval_of(const Numbers& numbers, const RowBounds& row, const Element& element);

// The least that the magnitude of r gamma may be in the forms that make this product first, but for 0: it may be subnormal where out
// is not. `products`: of its products with x and the mean as well, where the form has these. Infinite where there is none.
Wide least_scale(const Numbers& numbers, const RowBounds& row, const Element& element, bool products);

}  // namespace attest::oracle::layer_norm
