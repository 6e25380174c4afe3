#pragma once
#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "oracle/layer_norm/numbers.hpp"
#include "oracle/layer_norm/quick_loops.hpp"

namespace attest::oracle::layer_norm {

using Wide = long double;
static_assert(std::numeric_limits<Wide>::digits >= 64, "the reference of f64 needs more bits than f64 has");

// The normalised numbers of a row, and how far off each a kernel may be that flushes the subnormal numbers it reads.
struct SourceRow {
  std::vector<double> x;      // in whole lanes; the lanes behind the row do not matter
  std::vector<double> error;  // empty: none
  bool finite = true, has_nan = false;
  RowSums
      // About the first element, or about 0 for RMSNorm; in float64 `magnitudes` and `largest` alone are asked for.
      sums{};
  PreciseSums precise{};  // for float64 under LayerNorm
};

// Mean and variance of a row, and the errors of those of a conforming kernel (docs/layer-norm.md, sections 3 and 5). An
// interval takes nothing else of its row.
struct RowBounds {
  Wide mean = 0, variance = 0;
  Wide dm = 0;         // error of the mean
  Wide ed = 0;         // error of one difference from it, beside the mean's own error
  bool joint = false;  // the variance is off by the square of the mean's error, and otherwise by cv and av
  Wide cv = 0, av = 0;
  Wide lo = 0, hi = 0;    // bounds of the variance, whatever the mean
  Wide least = 0;         // least variance + epsilon; not positive: it may be 0 or less
  Wide largest_root = 0;  // largest reciprocal root; infinite where least is not positive

  bool lost_mean = false, lost_variance = false;  // they may overflow
  bool undetermined = false;                      // nothing is known

  // Sets least and largest_root from the other members.
  void bound_root(const Numbers& m) {
    least = (joint ? (1 - cv) * variance - av : lo) + m.epsilon_lo - (m.flush ? m.statistics.eta : 0);
    largest_root = least > 0 ? 1 / std::sqrt(least) : std::numeric_limits<Wide>::infinity();
  }
};

// The whole of sections 1 to 3.
struct Statistics : RowBounds {
  // Keeps no hold of the row once it is made.
  Statistics(const Numbers& m, const SourceRow& source);

  std::vector<Wide> d;  // x - mean
  Wide range = 0;       // range of x
  double largest = 0;   // largest |x|
  double mean_abs = 0;

 private:
  void refer(const Numbers& m);
  [[nodiscard]] bool is_exact_mean(Wide about) const;
  void bound_mean(const Numbers& m);
  void bound_rms(const Numbers& m);
  void bound_two_pass(const Numbers& m);
  void bound_corrected(const Numbers& m);
  void bound_welford(const Numbers& m);
  void bound_one_pass(const Numbers& m);
  // Returns the largest error of the mean of w; magnitudes descending. `grid`: all w are multiples of it, 0 where that
  // is of no use.
  [[nodiscard]] Wide mean_error(const Numbers& m, const std::vector<double>& w, Wide mean_of_w, double grid) const;

  std::span<const double> x_;
  std::vector<double> magnitudes_;  // |x|, descending
  double positive_ = 0, negative_ = 0;
  Wide input_error_ = 0, mean_input_error_ = 0;
  Wide mean_error_ = 0;  // error of the reference itself
};

// The largest power of two of which every number of x is a multiple; infinite if all are 0.
double common_grid(std::span<const double> x);

}  // namespace attest::oracle::layer_norm
