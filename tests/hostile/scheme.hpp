// The promises of the hostile kernel and the liberties it takes: one line of key=value words.
#pragma once

#include <cstdint>
#include <string>

#include "format.hpp"

namespace hostile {

enum class Fold { score, q, k, sqrt };
enum class Power { none, argument, both, fused, folded, unscaled };  // e^x as 2^(x log2 e), and the place of log2 e
enum class Side {
  nearest,
  up,
  down,
  alternate,
  hashed,
  mean,
  goal
};  // mean: by the sign of v - y in one column; goal: as a row asks
enum class Order {
  forward,
  backward,
  pairs,
  lanes,
  rising,
  falling,
  by_value,
  greedy
};  // greedy: next the term that errs farthest to the wanted side
enum class Tiles { ascending, descending, shuffled, strided };
enum class Merge { none, flat, chain };
enum class Normalise { after, before, lse };
enum class Empty { zero, nan, mean_v, mean_all };
enum class Projections { rounded, unrounded, separate };  // docs/mha.md, what a block promises

/// The way in which products reach a tensor core: one block onto the other, each by itself and their sums added up, or
/// every third product by itself between the blocks.
enum class Joining { chained, apart, some };

struct Blocks {
  std::int64_t size = 0;  // 0: no tensor core
  int frac = 23, fraction = 23;
  Joining joining = Joining::chained;
  bool idle = false;  // a block of zeros before each
  int below = 0;      // how far the exponent of a zero lies below that of the smallest normal result
};

struct Summation {
  Order order = Order::forward;
  std::int64_t lanes = 1;
  bool lanes_in_pairs = false;
  bool fma = false;
  bool truncate = false;
  Blocks blocks;
};

struct Scheme {
  // Formats of the policy's stages.
  Format storage, operand, scale, qk, score, softcap, softmax, weights, pv, partial, output;

  // The contract's numbers.
  double exp_ulp = 1, exp_rel = 0, div_ulp = 0.5, tanh_ulp = 4, lazy = 0;
  bool tanh_absolute = false;
  bool softcap_before_bias = true;
  Empty empty = Empty::zero;

  // Liberties.
  Side exp_side = Side::nearest, rescale_side = Side::nearest, div_side = Side::nearest, tanh_side = Side::nearest;
  bool off_subnormals = false;  // exp and tanh are off by their ulps among subnormals, too
  Power power = Power::none;
  bool round_log2e = false;  // log2 e is rounded before the scale is multiplied by it
  Fold fold = Fold::score;
  bool fold_enters_operand = false;  // q or k times the scale is rounded to the operand's format
  bool round_operand_first = true;
  bool root_of_rounded = false;  // sqrt of the rounded scale
  bool store_unscaled = false;   // the stored score is the unscaled one
  bool reciprocal_cap = false;
  Summation dot, sum, product;
  Tiles tiles = Tiles::ascending;
  std::int64_t tile = 1 << 30, splits = 1;
  bool contiguous_splits = true;
  bool add_to_running = true;  // a tile's terms are added to the running sum one by one, not as a sum of their own
  Merge merge = Merge::none;
  bool merge_by_lse = true;  // else by maximum and sum
  bool merge_weights_lse = false;
  Normalise normalise = Normalise::after;
  bool sum_rounded = false;     // the sum adds rounded weights
  bool sum_operand = false;     // those rounded to the operand's format, too
  bool two_passes = false;      // with normalise=before: the sum of one pass over tiles, weights computed anew
  bool narrow_division = true;  // in the wider or the narrower format of pv and softmax
  bool touch_masked = false;    // masked keys are multiplied by weights of zero
  bool mask_added = false;      // -inf is added to the scores of masked keys
  bool keep_shift = false;      // a maximum is kept while it lags no more than `lazy`
  bool vary = false;            // tiles, splits and orders differ from row to row
  bool reciprocal_sum = false;  // the final quotient is a product with a rounded reciprocal

  // The numbers of a block (docs/mha.md).
  Format gemm;
  Summation gemm_sum;
  std::int64_t gemm_chain = 0, gemm_lanes = 0, gemm_block = 0;  // additions that a product may pass through; 0: any
  Projections projections = Projections::rounded;
  bool heads_rounded = true, heads_to_f32 = false;
  bool drop_b_k = false;
  bool gemm_first = false;  // factors that gemm does not hold are rounded to it
  bool bias_first = false;  // a bias is what the sum begins with
  int goal = 1;             // the side to which the outputs that are aimed at shall err

  unsigned flush = 0;  // bits of Flush
  std::uint64_t seed = 1;
};

/// The numbers that become zero where they are subnormal.
enum Flush : unsigned {
  flush_inputs = 1,
  flush_score = 2,
  flush_softmax = 4,
  flush_sums = 8,
  flush_output = 16,
  flush_bias = 32,
  flush_scale = 64
};

/// Throws std::runtime_error for a word that is none.
Scheme read_scheme(const std::string& words);

}  // namespace hostile
