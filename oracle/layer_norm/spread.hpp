#pragma once
#include <cmath>

#include "oracle/layer_norm/element.hpp"
#include "oracle/series.hpp"

namespace attest::oracle::layer_norm {

// How far from the reference a conforming kernel's element tends to lie: within lambda s() of it, and `bias` more for errors that
// all point one way, before output rounding (docs/layer-norm.md, section 10). `own` is that part of it which no other element shares,
// but one of the same gamma and beta: of it `mean` (of t, squared) moves all such elements by one amount, and `scale` (squared) by one
// part. `row`: of t, squared, what all elements share beside the row's statistics.
struct Spread {
  double own = 0, bias = 0;
  double mean = 0, scale = 0, row = 0;
  double shared_squared = 0, shared = 0;  // the rest of s(): a variance, and what is added to the deviation

  [[nodiscard]] double s() const { return std::sqrt(square(own) + shared_squared) + shared; }
  // No more than that.
  [[nodiscard]] double least_s() const { return own > least_spread ? own : 0; }

  static constexpr double least_spread = 1e-140;  // below it squares underflow
};

// What the errors of a row's mean and of its reciprocal root have in common.
class RowSpread {
 public:
  RowSpread(const Numbers& m, const Contract& contract, const SourceRow& source, const Statistics& row, double epsilon);

  // Of an element; y is its reference.
  [[nodiscard]] Spread of(const Element& element, double y) const;

  // false: the row's errors are too large to act linearly, or its statistics may be lost.
  bool applies = false;
  Wide root = 0;               // the reciprocal root
  double scale = 0;            // as a double makes it
  double of_mean = 0;          // variance of t for what the mean is off by
  double of_scale = 0;         // and relative, for what the root is off by
  double root_bias = 0;        // relative: a root may err to one side, and so may a sum of squares of short numbers
  double mean_bias = 0;        // of t: sums of numbers that round alike
  double of_mean_squared = 0;  // relative: what the square of the mean's error adds to the variance, at lambda 5

 private:
  const Numbers& m_;
  double mean_;
};

}  // namespace attest::oracle::layer_norm
