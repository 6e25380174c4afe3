#pragma once
#include "core/problem.hpp"

// The inner loops of the quick levels (docs/bounds.md, "Levels"), in lanes, compiled for several instruction sets and
// chosen at run time. Arrays are doubles padded with zeros to whole lanes; strides count doubles.
namespace attest::oracle::products {

// s[r][j] = sum_c q[r][c] kt[c][j], or of absolute values. rows <= 4; `keys` a multiple of the lanes.
void scores(const double* q, Index q_stride, Index rows, const double* kt, Index kt_stride, Index d, Index keys,
            double* s, Index s_stride);
double largest_absolute_score(const double* q, const double* kt, Index kt_stride, Index d, Index keys);

// Over columns: the largest sum of squares, and a total that is finite only if every element is.
struct SquareExtent {
  double largest, total;
};
SquareExtent square_sums(const double* a, Index stride, Index rows, Index columns);
// The largest magnitude, and the sum of magnitudes.
struct Extent {
  double largest, total;
};
Extent magnitudes(const double* a, Index count);

// The facts of `count` numbers, in whole lanes: the value of the lowest bit of any finite one, infinite where all are
// 0; the largest finite magnitude; whether none is NaN or +inf, and none -inf.
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
// Writes to[n] = a[n] + b[n] + shift, rounded; b may be null. Magnitudes stay below the format's range. `count` in
// whole lanes.
void round_sums(const RoundRule& rule, const double* a, const double* b, double shift, Index count, double* to);

// The rule by which a raw product q.k becomes a score, and the least that e can be (section 1).
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
// Turns s in place from raw products to scores z, -inf where not open, and writes their least errors to e. `bias` and
// `open` (0 or -inf) may be null. Lanes from `count` on are closed.
ScoreSums finish_scores(const ScoreRule& rule, double* s, double* e, const double* bias, const double* open,
                        Index count, Index keys);
// The largest |bias| among keys whose score is at least `threshold`.
double largest_bias_above(const double* z, const double* bias, double threshold, Index keys);

// Returns the number of z that are at least `threshold`.
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
  double inverse_mass, gain, t, g, absolute;  // constants of the row
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

// Returns for eight columns from `v` the bits of those whose out surely lies between the smallest and the largest mean
// of the values over weights between lo and hi, once these are rounded. p, whose sum is 1, are weights among them,
// times a constant. `unit` and `tiny` are those of AcceptRule.
struct MeanRule {
  double unit, tiny;
  // Weights that are heavy beyond a number have a mean beyond it if the sum of weight * (value - number) is positive.
  // It must exceed this share of the sum of weight * (|value - number| + |number|), so that extreme_mean(), which ends
  // within 1e-15, agrees.
  static constexpr double margin = 1e-10;
};
std::uint8_t inside_means(const MeanRule& rule, const double* p, const double* lo, const double* hi, const double* v,
                          Index keys, Index stride, const double* out);

// Writes p = e^(z - z_max) and returns their sum. The full formulas use this and the functions below.
double weights(const double* z, double z_max, double* p, Index keys);
// The ends of a box of weights: lo, hi = e^(z - z_max - log_unit -+ (width + extra)), hi no more than e^600; and their
// sums.
struct EndRule {
  double z_max, log_unit, extra;
};
struct EndSums {
  double lo, hi;
};
EndSums ends(const EndRule& rule, const double* z, const double* widths, double* lo, double* hi, Index keys);
// Computes extreme_mean() of element.hpp.
double extreme_mean(const double* lo, const double* hi, const double* values, Index keys, double y, double sign,
                    double hull);

}  // namespace attest::oracle::products
