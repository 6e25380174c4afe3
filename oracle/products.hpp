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
struct Extent {
  double largest, total;
};
Extent square_sums(const double* a, Index stride, Index rows, Index columns);
// The largest magnitude, and the sum of magnitudes.
Extent magnitudes(const double* a, Index count);

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

// The least d of section 2: e + u (a1 (|z| + e) + a2 (max(|z|, |zmax|) + shift) + a3 (zmax - z + lazy)) + constant.
struct WeightRule {
  double z_max, u_softmax, a1, a2, a3, shift, lazy, constant;
  double cap;      // d is cut off here where it makes the linear gain
  double t, gain;  // m = t p + gain p (1 - e^-d)
};
struct WeightSums {
  double mass, gain;  // sum p, sum gain p (1 - e^-d)
};
// z becomes p = exp(z - zmax), e becomes d, m the weights of |v|.
WeightSums weigh(const WeightRule& rule, double* z, double* e, double* m, Index keys);

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

}  // namespace attest::oracle::products
