#pragma once
#include <array>
#include <cstdint>

#include "oracle/products.hpp"

// Level 1 for rows of few keys, a row in a lane, whichever head each is of (docs/bounds.md, "Levels"). The cost of such
// a row is mostly the same for every row.
namespace attest::oracle::products {

inline constexpr Index short_keys = 12;

// Rows side by side, in whole lanes: of each array, a row holds every `stride`-th double.
struct ShortLanes {
  Index rows, stride, keys, d, dv;
  double *q, *k, *v, *got;    // [d], [keys][d], [keys][dv], [dv]
  const double *bias, *open;  // [keys], or null; the latter 0 or -inf
  double *z, *e;              // [keys], from short_scores(), as finish_scores() makes them
  double *n, *z_max;          // keys, the largest score: of sound rows
  double *mass, *gain;        // from judge_short(): sum p, and sum p (1 - e^-d) over that
  std::uint8_t* sound;        // bits: all of a row and its head is finite
  std::uint8_t* settled;      // and every element is proven inside
};

struct ShortScoreRule {
  ScoreRule score;
  double bias_within;  // nats below the maximum in which a bias counts
};
// The largest numbers of any sound row that has an open key; the first two of any sound row, where there is a bias.
struct ShortTops {
  double q_square, k_square, z, bias;
};
ShortTops short_scores(const ShortScoreRule& rule, const ShortLanes& rows);

struct ShortRule {
  // Numbers by the number of open keys.
  using Table = std::array<double, short_keys + 1>;
  // 1 where upper bounds that hold for all rows prove that nothing overflows.
  Table bounded{};
  Table constant{}, cap{}, damping{}, t{}, g{}, absolute_after{}, absolute_before{};  // WeightRule's and AcceptRule's
  double u_softmax, a1, a2, a3;
  double spared;     // part of t spared for the largest weight
  double eta_after;  // factor of absolute_after, over the mass, with 4 added
  double unit, tiny;
};
void judge_short(const ShortRule& rule, const ShortLanes& rows);

}  // namespace attest::oracle::products
