#pragma once
#include <memory>

#include "core/layer_norm/contract.hpp"
#include "core/layer_norm/problem.hpp"
#include "oracle/layer_norm/quick_loops.hpp"
#include "oracle/numbers.hpp"

namespace attest::oracle::layer_norm {

using attest::layer_norm::Contract;
using attest::layer_norm::NormForm;
using attest::layer_norm::Stage;
using attest::layer_norm::Variance;

// (1 + a) (1 + b) - 1: of two relative errors, however small.
template <class Number>
Number both(Number a, Number b) {
  return a + b + a * b;
}

// A format as the bounds see it.
struct Unit {
  Unit(Format the_format, bool flush)
      : format(the_format),
        u(unit_roundoff(format)),
        eta(flush ? smallest_normal(format) : half_smallest_subnormal(format)),
        overflow(overflow_threshold(format)) {}
  Format format;
  double u, eta, overflow;
};

// The numbers of a contract for rows of n elements (docs/layer-norm.md, sections 0, 3 and 4).
struct Numbers {
  // `has_residual`: under sum_of unrounded the normalised numbers are then in the sum format.
  Numbers(const Contract& contract, Format param_format, Index n, double epsilon, bool rms, bool has_residual);

  Variance variance;
  NormForm form;
  bool rms, flush, flush_inputs, clamp, norm_rounded;
  // the variance is one_pass or shifted; welford merges parts of a row, by weights
  bool one_pass_like, merges, weighted_merges;
  Format source;  // the format of the numbers that are normalised
  Unit storage, statistics, normalise, affine;
  Format params, output;
  int gamma_offset;

  bool statistics_lose;  // S loses the format of the numbers that are normalised (section 0)
  bool normalise_loses_source, normalise_loses_statistics, affine_loses_normalise, affine_loses_params,
      affine_loses_source, affine_loses_statistics;
  double n;
  double u;                       // relative error of an addition in the statistics format: kappa u_S
  double additions, merge_depth;  // H and M
  double count;                   // relative error of dividing by n, however it is done
  bool count_lost;                // n, or 1/n, is no number of the statistics format
  double epsilon_lo, epsilon_hi;  // epsilon as the statistics format may hold it
  double root;                    // relative error of the reciprocal root, half the rounding of v + epsilon included
};

// Numbers, and the constants of the quick levels that depend on no row, gamma or beta.
struct QuickNumbers : Numbers {
  explicit QuickNumbers(const Numbers& numbers);

  bool can_be_narrow;  // rows whose numbers are not large may be narrow
  double root_of_overflow, all_additions, three, four, cv, growing, most_growing, hull_growing;
  double brought_root;  // root, with the loss where the normalise format narrows it
  double relative;      // relative error of t: brought_root and the error of the product with it
  double of_magnitude, of_reach;
  // The least and the largest loss of squares and sums of them by underflow, computed once because products of
  // subnormal doubles are slow.
  double squares_underflow[2];
  ColumnRule columns;  // no interval may be wide for the rounding of a sum with beta: that would hold +-sqrt(n) |gamma|
};

// The numbers of a problem. They are lent by the last problem on the same thread where its arguments were the same,
// since laws ask for one row length and contract again and again. Takes the arguments of Numbers.
class LentNumbers {
 public:
  LentNumbers(const Contract& contract, Format param_format, Index n, double epsilon, bool rms, bool has_residual);
  ~LentNumbers();
  LentNumbers(const LentNumbers&) = delete;
  LentNumbers& operator=(const LentNumbers&) = delete;
  const QuickNumbers& operator*() const noexcept;

 private:
  struct Made;
  static std::unique_ptr<Made>& of_thread();
  std::unique_ptr<Made> made_;
};

}  // namespace attest::oracle::layer_norm
