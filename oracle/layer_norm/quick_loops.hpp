#pragma once
#include <cstdint>

#include "core/layer_norm/contract.hpp"
#include "core/tensor.hpp"
#include "oracle/lanes.hpp"

namespace attest::oracle::layer_norm {

// What every error must stay below, so that no interval is wide or open.
inline constexpr double little = 0x1p-6;

// Arrays hold whole lanes; what lies behind the n numbers that count is finite.
struct RowSums {
  double magnitudes, largest;  // of |x|
  double sum, squares;         // of x - pivot
};

// As two doubles, which are off by no more than their last bits squared.
struct PreciseSums {
  double sum, sum_rest;
  double magnitudes, largest;
};
struct PreciseSquares {
  double sum, rest;
};

// What accept_row() holds an element to: |got - y|, the reference's own error included, is at most the radius that is proven
// without a sort. Of the normalised value t the radius is the larger of two constant + proportional |t|. gamma has its offset.
struct AcceptRowRule {
  static constexpr double raise = 0x1p600;
  double mean, scale;  // of the reference
  double constant[2], proportional[2];
  // Where delta may be large: the same for an out between y and beta or beyond that; and for one on the other side, of |t| no
  // less than turn_from, sqrt((1 + t^2 turn_w) turn_s) - |t| times turn_stretch besides.
  bool turns;
  double near_constant[2], near_proportional[2];
  double turn_from, turn_w, turn_s, turn_stretch, turn_constant, turn_proportional;
  double u_product;           // of a product with a gamma that is no power of two
  double u_affine;            // of a sum with a beta that is not 0
  double of_beta;             // of beta, less what the reference's own sum rounds off
  double least_error;         // of the reference, absolute: of one rounding
  double
      largest_beta_error;  // of the reference's own sum, over all columns, and the same but for what each gamma multiplies
  double gamma_error;      // that
  bool exact_mean;         // nothing of the reference's mean is off
  // Where out is in f64, and needed of few elements: the same beside a reference in two doubles.
  bool in_two;
  double mean_rest, scale_rest;
  double constant_in_two[2], proportional_in_two[2], of_beta_in_two, eta_product;
  bool raised;  // x and the radius are `raise` times what they are
  double u_out, eta_out, largest_out;
};
// Of gamma and beta: whether gamma is 0 or hull |gamma| no less than of_beta |beta| + least, of all columns.
struct ColumnRule {
  double of_beta, least, hull;
};
struct ColumnFacts {
  double largest_gamma, least_gamma, largest_beta;  // magnitudes, NaN left out; the least one but 0
  bool narrow;                                      // that, and all are finite
};
// x + residual, rounded to `sum` and then to `storage`.
struct AddRule {
  Format sum, storage;
};

// What decide_row() says of an element.
struct Decided {
  static constexpr std::uint8_t unknown = 0, inside = 1, wide = 2, undetermined = 3;
};

// What section 4 of docs/layer-norm.md says of the elements of a row, and of the columns of all rows: DecideRow fills both in.
struct DecideRule {
  attest::layer_norm::NormForm form;
  bool open;              // whatever is finite is permitted
  bool nonfinite;         // NaN and infinities are permitted everywhere
  bool beta_left;         // exactly beta is permitted, too
  bool unbounded;         // the variance may be 0 or less, and t is not bounded, wherever ..
  bool always_unbounded;  // .. or only where x - m may have either sign
  bool turns;             // the extremes may lie between the ends of delta
  double dm, mean;        // of the mean; the most it may be
  double difference, difference_of_x;
  double top, bottom;  // by which x - m is multiplied at least and at most
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

// What accept_short() holds rows of few elements to, a row in a lane: section 7 of docs/layer-norm.md.
struct ShortRule {
  static constexpr Index longest = 64;
  Index n = 0;
  bool precise = false;  // out is in f64
  bool rms = false, joint = false, welford = false, weighted = false, one_pass_like = false;
  bool of_mean = false;                                                // whether anything is said of the mean
  double epsilon = 0, epsilon_below = 0, epsilon_above = 0, gain = 0;  // what S makes of it; and less av
  double u = 0, eta = 0, additions = 0, merges = 0, growing = 1, hull_growing = 1, four = 0;
  double exact = 0;                   // numbers of so many steps of what all are multiples of are exact
  double mean_factor = 0, count = 0;  // of a sum's error to its mean's, and of the mean
  double cv = 0, av = 0;              // of the variance
  // Rows in which |x|, or steps |x| times the root, is larger are not surely narrow. Of those, where `bounds`, whether they are
  // determined is told by the most that they may be off by.
  double largest = 0, steps = 0;
  bool bounds = false;
  double most_additions = 0, overflow = 0, statistics_u = 0, epsilon_lo = 0, epsilon_hi = 0;
  double error = 0, relative = 0, of_magnitude = 0, of_reach = 0, normalise_eta = 0, late = 0;  // of t
  const double *gamma = nullptr, *beta = nullptr;  // as AcceptRowRule, and what follows
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
  // Bit i mod 8 of accepted[i / 8] is set where element i is inside; whether all are.
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
// The sum of (x - mean)^2, relatively off by no more than 6 u and 2 (n u)^2, besides what underflows.
double near_squares(const double* x, Index n, double mean);
// All but `rule` in whole lanes.
void add_rows(const AddRule& rule, const double* x, const double* residual, Index n, double* sum, double* stored);
// Whether all n numbers are equal; what lies behind them in whole lanes is of no account.
bool same_numbers(const double* a, const double* b, Index n);
bool accept_row(const AcceptRowRule& rule, const double* x, const double* gamma, const double* beta, const double* got,
                Index n, std::uint8_t* accepted);

// Of `rows` rows of rule.n elements, one behind the other and zeros behind them in whole lanes of rows: bit r mod 8 of
// accepted[r / 8] is set where every element of row r is inside, and of narrow[r / 8] where none is wide.
void accept_short(const ShortRule& rule, const double* x, const double* got, Index rows, std::uint8_t* accepted,
                  std::uint8_t* narrow);

void decide_row(const DecideRule& rule, const DecideColumns& columns, const double* x, const double* error,
                const double* d, const double* got, Index n, std::uint8_t* decided);

}  // namespace attest::oracle::layer_norm
