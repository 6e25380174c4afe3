#pragma once
#include <array>
#include <cstdint>

#include "oracle/products.hpp"

// Level 1 for rows of few keys, a row a lane, whichever head each is of (docs/bounds.md, "Levels"): most of what such a row costs
// is what any row costs. All that the statistical tiers are told has the bits that the loops of single rows give it.
namespace attest::oracle::products {

inline constexpr Index short_keys = 12;

// Rows side by side, in whole lanes: of each array, a row holds every `stride`-th double.
struct ShortLanes {
  Index rows, stride, keys, d, dv;
  double *q, *k, *v, *got;             // [d], [keys][d], [keys][dv], [dv]
  const double *bias, *open;           // [keys], or null; the latter 0 or -inf
  double *z, *e, *variance;            // [keys], from short_scores(), as finish_scores() and variances() make them
  double *n, *z_max, *v_top;           // keys, the largest score, the largest |v| of the head: of sound rows
  double *mass, *gain;                 // from judge_short(): sum p, and sum p (1 - e^-d) over that
  double *squares, *finite, *weights;  // what a row adds to Statistics,
  double* largest;                     // and the square of what it says of largest_lambda, before the margin
  std::uint8_t* sound;                 // bits: all of a row and its head is finite
  std::uint8_t* settled;               // and every element is proven inside and, where spreads are asked for, near
};

struct ShortScoreRule {
  ScoreRule score;
  double bias_within;  // nats below the maximum in which a bias counts
  bool spreads;
  VarianceRule variance;            // but for what depends on the row,
  double a2, eta_scale, u_softmax;  // which these say; eta_scale is that of keys that carry the scale, 0 where none do
};
// The largest numbers of any sound row that has an open key; the first four of any sound row, where there is a bias.
struct ShortTops {
  double q_square, q_element, k_square, k_element2, z, bias, variance;
};
ShortTops short_scores(const ShortScoreRule& rule, const ShortLanes& rows);

struct ShortRule {
  // What follows from the number of open keys.
  using Table = std::array<double, short_keys + 1>;
  // 1 where upper bounds that hold for all rows prove that nothing overflows and, for spreads, that errors act linearly.
  Table bounded{};
  Table e_most{}, constant{}, cap{}, damping{}, t{}, g{}, absolute_after{},
      absolute_before{};                                        // of WeightRule and AcceptRule
  Table every{}, rounded{}, per_mean2{}, absolute{}, root_n{};  // of SquareRule and SpreadRule
  double u_softmax, a1, a2, a3;
  double spared;     // of t, for the largest weight
  double eta_after;  // what absolute_after is multiplied by, over the mass, and 4 added
  double unit, tiny;
  bool spreads;
  double inverse_unit2, unit2, twice_eta_weights;
  double underflow_after, underflow_before, of_sum, of_divisions;
  double shares_unit, shares_limit;  // as shares_largest_weight() has them
  double gap, half_subnormal, limit;
};
void judge_short(const ShortRule& rule, const ShortLanes& rows);

}  // namespace attest::oracle::products
