#pragma once
#include "core/problem.hpp"

// The inner loops of the quick levels (docs/bounds.md, "Levels"), in lanes, compiled for several instruction sets and
// chosen at run time. Arrays are doubles padded with zeros to whole lanes; strides count doubles.
namespace attest::oracle::products {

// s[r][j] = sum_c q[r][c] kt[c][j], or of absolute values. rows <= 4; `keys` a multiple of the lanes.
void scores(const double* q, Index q_stride, Index rows, const double* kt, Index kt_stride, Index d, Index keys,
            double* s, Index s_stride);
double largest_absolute_score(const double* q, const double* kt, Index kt_stride, Index d, Index keys);

// Over columns: the largest sum of squares, the largest square, and a total that is finite only if every element is.
struct SquareExtent {
  double largest, largest_element, total;
};
SquareExtent square_sums(const double* a, Index stride, Index rows, Index columns);
// The largest magnitude, and the sum of magnitudes.
struct Extent {
  double largest, total;
};
Extent magnitudes(const double* a, Index count);

// Of the finite numbers among `count`, in whole lanes: the value of the lowest bit of any, infinite where all are 0, and the largest
// magnitude. And whether none is NaN or +inf, and none -inf.
struct Grid {
  double lowest_bit, largest;
  bool below_infinity, above_infinity;
};
Grid grid(const double* a, Index count);

// The largest sum of squares of a row; NaN or infinite if an element is. Rows are padded.
double largest_square_sum(const double* a, Index stride, Index rows, Index columns);

// Rounding to nearest in a format: `shifter` is 3/2 2^52 ulps of a number in [1, 2), 0 where nothing is rounded.
struct RoundRule {
  double shifter, smallest_normal;
};
// to[n] = a[n] + b[n] + shift, rounded; b may be null. Magnitudes stay below the format's range. `count` in whole lanes.
void round_sums(const RoundRule& rule, const double* a, const double* b, double shift, Index count, double* to);

// How a raw product q.k becomes a score, and the least that e can be (section 1).
struct ScoreRule {
  double scale, softcap;
  bool softcap_before_bias;
  double per_s;       // e >= per_s |s|, before a softcap
  double per_capped;  // e grows by at least per_capped |z| with the softcap
  double u_score, u_bias, u_softmax;
};
struct ScoreSums {
  double z_max, n;
};
// In place: s from raw products to scores z, -inf where not open; e their least errors. `bias` and `open` (0 or -inf) may
// be null. Lanes from `count` on are closed.
ScoreSums finish_scores(const ScoreRule& rule, double* s, double* e, const double* bias, const double* open,
                        Index count, Index keys);
// The largest |bias| among keys whose score is at least `threshold`.
double largest_bias_above(const double* z, const double* bias, double threshold, Index keys);

// How many of z are at least `threshold`.
Index count_from(const double* z, double threshold, Index keys);

// The least d of section 2: e + u (a1 (|z| + e) + a2 (max(|z|, |zmax|) + shift) + a3 (zmax - z + lazy)) + constant.
struct WeightRule {
  double z_max, u_softmax, a1, a2, a3, shift, lazy, constant;
  double cap;      // d is cut off here where it makes the linear gain
  double t, gain;  // m = t p + gain p (1 - e^-d)
};
struct WeightSums {
  double mass, gain;  // sum p, sum gain p (1 - e^-d)
};
// p = exp(z - zmax), which may lie where z does; e becomes d, m the weights of |v|.
WeightSums weigh(const WeightRule& rule, const double* z, double* p, double* e, double* m, Index keys);

// y[r] (+)= p[r] v, reach[r] (+)= m[r] |v|, for rows <= 4; `columns` a multiple of the lanes.
void values(const double* p, const double* m, Index stride, Index rows, const double* v, Index keys, Index columns,
            double* y, double* reach, bool add);

struct AcceptRule {
  double inverse_mass, gain, t, g, absolute;  // of the row
  double unit, tiny;                          // u of the output format and half its smallest subnormal
};
// Bit c of accepted[c / 8] is set where out[c] is proven inside. y is divided by the mass on the way.
void accept(const AcceptRule& rule, double* y, const double* reach, const double* out, Index columns,
            std::uint8_t* accepted);

// lo, hi = p e^-+d.
void box(const double* p, const double* d, double* lo, double* hi, Index keys);
// Level 2 for eight columns from `v`: bits of those whose out is proven inside.
std::uint8_t inside_box(const AcceptRule& rule, const double* p, const double* lo, const double* hi, const double* v,
                        Index keys, Index stride, const double* y, const double* out);

// For eight columns from `v`: bits of those whose out surely lies between the smallest and the largest mean of the values over weights
// between lo and hi, once these are rounded. p, whose sum is 1, are weights among them, times a constant. `unit` and `tiny` as AcceptRule
// has them.
struct MeanRule {
  double unit, tiny;
  // Weights that are heavy beyond a number have a mean beyond it if the sum of weight * (value - number) is positive; by more than this
  // share of the sum of weight * (|value - number| + |number|), so that extreme_mean(), which ends within 1e-15, says so too.
  static constexpr double margin = 1e-10;
};
std::uint8_t inside_means(const MeanRule& rule, const double* p, const double* lo, const double* hi, const double* v,
                          Index keys, Index stride, const double* out);

// What follows serves the statistical tiers: lower bounds of s (docs/bounds.md, "Tiers two and three"), in float32 and in
// units of u^2.

// The variance of ln of each key's weight: constant + per_s s^2 + per_z z^2 + per_below (zmax - z)^2 + per_bias bias^2,
// with s = z - bias. `bias` may be null.
struct VarianceRule {
  double z_max, constant, per_s, per_z, per_below, per_bias;
};
// Returns the largest among keys that count.
double variances(const VarianceRule& rule, const double* z, const double* bias, float* variance, Index keys);

// w becomes p^2 variance; w2 is that and p^2 times `every`, or times `rounded` from `least` on.
struct SquareRule {
  double every, rounded, least;
};
struct SquareSums {
  double w, p2;
  bool hides;  // whether a weight that counts for nothing has a variance that float32 does not hold
};
SquareSums square_weights(const SquareRule& rule, const double* p, float* w, float* w2, Index keys);

// Values times `scale`, and their squares.
void squares(const double* v, double scale, float* scaled, float* squared, Index count);
// first[r] (+)= w[r] v, second[r] (+)= w2[r] v^2, for rows <= 4.
void moments(const float* w, const float* w2, Index stride, Index rows, const float* v, const float* v2, Index keys,
             Index columns, float* first, float* second, bool add);

struct SpreadRule {
  double inverse_mass, scale;  // of p, and of the values in the moments
  double unit2, weight_sum;    // u^2, sum w
  double epsilon, underflow;   // the relative and the absolute error of the moments
  double per_mean2, absolute;  // s^2 = x2 + per_mean2 y^2 + absolute^2
  double unit, gap, tiny;      // u of the output format, of its rounding (0: none), half its smallest subnormal
  double floor;                // what weights that underflow may move, of the largest value
  double limit;                // an element is near where its error is at most limit s
};
struct SpreadSums {
  // Sum of error^2 / (s^2 + floor^2 + halfulp^2 / 3) over the finite ones of the first `count` columns whose s^2 float32
  // may have halved at most, and their number.
  double squares = 0, finite = 0;
  double largest = 0;  // (error - half the gap) / s of the near ones
  bool all_near = false;
};
// y is the mean. Bit c of near[c / 8] is set where out[c] lies within limit s of it.
SpreadSums spread(const SpreadRule& rule, const double* y, const float* first, const float* second, const double* out,
                  Index columns, Index count, std::uint8_t* near);

// The same question by the term of s that y alone decides.
struct NearRule {
  double scale;                // of the values
  double per_mean2, absolute;  // the square of the limit: per_mean2 y^2 + absolute
  double gap, tiny;            // as above
};
// Sets near as spread() does. Returns whether every one of the first `count` columns is near.
bool near_by_mean(const NearRule& rule, const double* y, const double* out, Index columns, Index count,
                  std::uint8_t* near);

// Of the sum of the terms scale p v over the keys whose p is not 0, in their order, column by column.
struct RunningSums {
  double* total;
  double *sums, *squares;  // the sum of the running sums, and of their squares
  double* terms;           // the sum of the squares of the terms
  double *least, *most;    // of the terms
  double* count;           // terms above least_term
  static constexpr double least_term = 0x1p-800;
  static constexpr Index arrays = 7;
};
// `add`: goes on where the keys before ended.
void running_sums(const double* p, double scale, const double* v, Index keys, Index columns, const RunningSums& to,
                  bool add);

// Of the full formulas. Of eight series of n terms, terms[at * 8 + k] the k-th's, what Prefixes (series.hpp) has: eight numbers each;
// the largest running sums are not looked for where `largest` is null.
struct SeriesSums {
  double *squares, *prefix_squares, *largest;
};
void prefixes_of_eight(const double* terms, Index n, const SeriesSums& to);
// p = e^(z - z_max), and their sum.
double weights(const double* z, double z_max, double* p, Index keys);
// The ends of a box of weights: lo, hi = e^(z - z_max - log_unit -+ (width + extra)), hi of no more than e^600; and their sums.
struct EndRule {
  double z_max, log_unit, extra;
};
struct EndSums {
  double lo, hi;
};
EndSums ends(const EndRule& rule, const double* z, const double* widths, double* lo, double* hi, Index keys);
// What extreme_mean() of element.hpp is.
double extreme_mean(const double* lo, const double* hi, const double* values, Index keys, double y, double sign,
                    double hull);

}  // namespace attest::oracle::products
