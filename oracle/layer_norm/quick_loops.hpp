#pragma once
#include <cstdint>

#include "core/layer_norm/contract.hpp"
#include "core/tensor.hpp"
#include "oracle/lanes.hpp"

namespace attest::oracle::layer_norm {

// An upper limit of every error, so that no interval is wide or open.
inline constexpr double little = 0x1p-6;

// Arrays hold whole lanes; what lies behind the n numbers that count is finite.
struct RowSums {
  double magnitudes, largest;  // sum and largest of |x|
  double sum, squares;         // sums of x - pivot and of its square
};

// Sums as two doubles, which are off by no more than their last bits squared.
struct PreciseSums {
  double sum, sum_rest;
  double magnitudes, largest;
};
struct PreciseSquares {
  double sum, rest;
};

// The rule by which accept_row() accepts an element: |got - y|, the reference's own error included, is at most the
// radius that is proven without a sort. The radius of the normalised value t is the larger of two constant +
// proportional |t|. gamma has its offset.
struct AcceptRowRule {
  static constexpr double raise = 0x1p600;
  double mean, scale;  // mean and scale of the reference
  double constant[2], proportional[2];
  // Constants where delta may be large. The near ones are those for an out between y and beta or beyond it. An out on
  // the other side, with |t| no less than turn_from, has sqrt((1 + t^2 turn_w) turn_s) - |t| times turn_stretch
  // besides.
  bool turns;
  double near_constant[2], near_proportional[2];
  double turn_from, turn_w, turn_s, turn_stretch, turn_constant, turn_proportional;
  double u_product;           // error of a product with a gamma that is no power of two, relative
  double u_affine;            // error of a sum with a beta that is not 0, relative
  double of_beta;             // error of beta, relative, less what the reference's own sum rounds off
  double least_error;         // absolute error of one rounding of the reference
  double largest_beta_error;  // largest error of the reference's own sum, over all columns, beside gamma_error |gamma|
  double gamma_error;         // the part of that error that grows with |gamma|
  bool exact_mean;            // the reference's mean has no error
  // The same constants beside a reference in two doubles. They are used where out is float64, for few elements.
  bool in_two;
  double mean_rest, scale_rest;
  double constant_in_two[2], proportional_in_two[2], of_beta_in_two, eta_product;
  bool raised;  // x and the radius are multiplied by `raise`
  double u_out, eta_out, largest_out;
};
// The condition of a narrow column: gamma is 0, or hull |gamma| is no less than of_beta |beta| + least.
struct ColumnRule {
  double of_beta, least, hull;
};
struct ColumnFacts {
  double largest_gamma, least_gamma, largest_beta;  // magnitudes, NaN left out; the least is that of those above 0
  bool narrow;                                      // ColumnRule holds for all columns, and all numbers are finite
};
// The formats of x + residual, which is rounded to `sum` and then to `storage`.
struct AddRule {
  Format sum, storage;
};

// The outcomes of decide_row().
struct Decided {
  static constexpr std::uint8_t unknown = 0, inside = 1, wide = 2, undetermined = 3;
};

// The numbers of section 4 of docs/layer-norm.md for the elements of a row, and for the columns of all rows. DecideRow
// fills both in.
struct DecideRule {
  attest::layer_norm::NormForm form;
  bool open;              // any finite number is permitted
  bool nonfinite;         // NaN and infinities are permitted everywhere
  bool beta_left;         // exactly beta is permitted, too
  bool unbounded;         // the variance may be 0 or less, and t is not bounded, wherever ..
  bool always_unbounded;  // .. or only where x - m may have either sign
  bool turns;             // the extremes may lie between the ends of delta
  double dm, mean;        // error of the mean; the mean's largest magnitude
  double difference, difference_of_x;
  double top, bottom;  // the least and the largest factor of x - m
  double low, high, low_scale, high_scale;
  double r;  // the largest root
  double t_relative, t_absolute, t_of_reach, t_of_magnitude, t_late, t_overflow, t2_overflow;
  double stored_u, stored_eta, narrow_u, narrow_eta;
  double reach_overflow, gamma_offset, a_u;
  double p_absolute, p_product, p_length, p_gamma, p_both, p_late, p_overflow;
  double y_overflow, own, own_least, hull;
  double u_out, eta_out, largest_out;
};
struct DecideColumns {
  const double *gamma, *gamma_error, *gamma_flushed, *gamma_most, *product_error;
  const double *beta, *beta_error, *sum_error;
  const double* live;  // 0 where gamma takes all of t away, else 1
  const double *beta_left, *zero_left;
};

// The rule by which accept_short() accepts rows of few elements, a row in a lane: section 7 of docs/layer-norm.md.
struct ShortRule {
  static constexpr Index longest = 64;
  Index n = 0;
  bool precise = false;  // out is in f64
  bool rms = false, joint = false, welford = false, weighted = false, one_pass_like = false;
  bool of_mean = false;  // whether the mean has an error
  // Epsilon, and how far below and above it S may hold it; the least epsilon less av.
  double epsilon = 0, epsilon_below = 0, epsilon_above = 0, gain = 0;
  double u = 0, eta = 0, additions = 0, merges = 0, growing = 1, hull_growing = 1, four = 0;
  double exact = 0;                   // numbers of at most so many steps of their common grid are exact
  double mean_factor = 0, count = 0;  // factor from a sum's error to its mean's; relative error of the mean
  double cv = 0, av = 0;              // errors of the variance, relative and absolute
  // Rows in which |x| is larger than `largest`, or steps |x| times the root than `little`, are not surely narrow. Where
  // `bounds`, the largest errors tell whether such rows are determined.
  double largest = 0, steps = 0;
  bool bounds = false;
  double most_additions = 0, overflow = 0, statistics_u = 0, epsilon_lo = 0, epsilon_hi = 0;
  double error = 0, relative = 0, of_magnitude = 0, of_reach = 0, normalise_eta = 0, late = 0;  // errors of t
  const double *gamma = nullptr, *beta = nullptr;  // these and what follows are those of AcceptRowRule
  double u_product = 0, u_affine = 0, of_beta = 0, least_error = 0, largest_beta_error = 0, gamma_error = 0;
  double own_roundings = 0, own_in_two = 0, of_beta_in_two = 0, eta_product = 0;
  double u_out = 0, eta_out = 0, largest_out = 0;
};

// The loops over a row, one instance per instruction set, as oracle/loops.hpp has those of attention.
template <class L>
struct RowLoops {
  static RowSums sums(const double* x, Index n, double pivot);
  static ColumnFacts columns(const ColumnRule& rule, const double* gamma, const double* beta, Index n);
  static PreciseSums precise_sums(const double* x, Index n);
  static PreciseSquares precise_squares(const double* x, Index n, double mean, double mean_rest);
  static double near_squares(const double* x, Index n, double mean);
  static void add(const AddRule& rule, const double* x, const double* residual, Index n, double* sum, double* stored);
  static bool same(const double* a, const double* b, Index n);
  // Sets bit i mod 8 of accepted[i / 8] where element i is inside. Returns whether all are.
  static bool accept(const AcceptRowRule& rule, const double* x, const double* gamma, const double* beta,
                     const double* got, Index n, std::uint8_t* accepted);
  static void decide(const DecideRule& rule, const DecideColumns& columns, const double* x, const double* error,
                     const double* d, const double* got, Index n, std::uint8_t* decided);
  static void accept_short(const ShortRule& rule, const double* x, const double* got, Index rows,
                           std::uint8_t* accepted, std::uint8_t* narrow);
};

RowSums row_sums(const double* x, Index n, double pivot);
ColumnFacts column_facts(const ColumnRule& rule, const double* gamma, const double* beta, Index n);
// Sums of x and of (x - mean - mean_rest)^2, for numbers below 2^400.
PreciseSums precise_sums(const double* x, Index n);
PreciseSquares precise_squares(const double* x, Index n, double mean, double mean_rest);
// Returns the sum of (x - mean)^2, relatively off by no more than 6 u and 2 (n u)^2, besides underflow.
double near_squares(const double* x, Index n, double mean);
// Arrays hold whole lanes.
void add_rows(const AddRule& rule, const double* x, const double* residual, Index n, double* sum, double* stored);
// Tells whether all n numbers are equal. The rest of the whole lanes does not matter.
bool same_numbers(const double* a, const double* b, Index n);
bool accept_row(const AcceptRowRule& rule, const double* x, const double* gamma, const double* beta, const double* got,
                Index n, std::uint8_t* accepted);

// Judges `rows` rows of rule.n elements, one behind the other and zeros behind them in whole lanes of rows. Sets bit r
// mod 8 of accepted[r / 8] where every element of row r is inside, and that of narrow[r / 8] where none is wide.
void accept_short(const ShortRule& rule, const double* x, const double* got, Index rows, std::uint8_t* accepted,
                  std::uint8_t* narrow);

void decide_row(const DecideRule& rule, const DecideColumns& columns, const double* x, const double* error,
                const double* d, const double* got, Index n, std::uint8_t* decided);

}  // namespace attest::oracle::layer_norm
