#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "core/contract.hpp"
#include "core/inputs.hpp"
#include "core/problem.hpp"

// Attention in emulated arithmetic: every operation rounded to the format that the contract names, in an order and by a
// scheme drawn at random among those that the contract permits. Slow and plain; knows nothing of the oracle.
namespace attest::emulator {

enum class Order : std::uint8_t { forward, backward, pairwise, lanes, random };
enum class ScaleOn : std::uint8_t { score, q, k, exponent, square_roots };
// The point at which weights meet the sum. `anew`: those of `before` are made a second time, to be divided.
enum class Normalise : std::uint8_t { online, after, before, by_lse, anew };
// The way in which splits merge. Without the running sums of `online` there is nothing unnormalised: it is
// `normalised`.
enum class Merge : std::uint8_t { unnormalised, normalised, chain, by_lse, chain_by_lse };
// The error of a function or a division within the bound of the contract: at random; all of it with a sign at random;
// all of it to one side; or to one side up to an argument and to the other beyond. Each of these depends on the
// argument. The last two depend on the call: all of it to one side and the other in turn, or with a sign at random, as
// lanes and tails with a function of their own err.
enum class Error : std::uint8_t { none, random, scattered, up, down, outwards, inwards, stepped, in_turn, by_call };

// The direction of rounding of a result that its format does not hold.
enum class Direction : std::uint8_t { nearest, up, down, toward_zero };

// The way in which the blocks of tensor cores add up: each onto the one before; each by itself, and their sums one by
// one; or the first half of the products so, and the others one by one.
enum class Blocks : std::uint8_t { none, chained, apart, half };

// The defect of the kernel, if any.
enum class Defect : std::uint8_t {
  none,
  scale_one_percent,
  last_key_dropped,
  extra_zero_key,
  no_rescale,
  value_shifted,
  exp_off,   // by up to 1e-3, over each octave of its result
  bits_lost  // 3 of the fraction bits to which blocks of products are cut are lost
};

struct Variant {
  Order qk = Order::forward, pv = Order::forward, row_sum = Order::forward;
  ScaleOn scale_on = ScaleOn::score;
  Normalise normalise = Normalise::online;
  Merge merge = Merge::unnormalised;
  bool fma = false, exp2 = false, reversed = false, sum_of_rounded = false, reciprocal = false;
  bool in_octaves =
      false;  // log2 e is folded in with the scale, and a bias multiplied by it; with exp2, without softcap
  bool truncate_qk = false, truncate_pv = false, truncate_sum = false;  // accumulators, where they are no f64
  // For tensor cores, by the contract: the sums that are made of blocks, and the number of the contract's blocks in
  // each.
  Blocks blocks_qk = Blocks::none, blocks_pv = Blocks::none, blocks_sum = Blocks::none;
  Index blocks_at_once = 1;
  bool cut_operands = false;                // rounds operands to tf32, toward zero
  Direction rounding = Direction::nearest;  // rounding of every operation; never drawn
  bool round_scaled = false;                // rounds a q or k that carries the scale to the operand's format
  bool store_unscaled = false;  // the dot product goes to the score's format, and the scaled score only with a bias
  bool guard_empty = true;      // whether -inf scores are skipped
  Index tile = 1 << 30, splits = 1;
  Error exp_error = Error::none, tanh_error = Error::none, div_error = Error::none;
  Error rescale_error = Error::none;  // error of exp where sums are rescaled or splits merged
  double lazy = 0;                    // nats by which the running maximum may lag, all of which it takes
  std::uint64_t seed = 1;
  Defect defect = Defect::none;
  // The order in which the rounded products of a column are added, one after the other, given the row sum, in a row
  // that is kept whole. Absent, or where it returns none, it is that of `pv`. Never drawn.
  std::function<std::vector<std::size_t>(const std::vector<double>& products, double total)> arrange{};
};

// A scheme that keeps `contract` on `problem`.
Variant draw_variant(const Contract& contract, const Problem& problem, std::uint64_t seed);

// Writes every row of `out`, and of `lse` if present.
void run(const Inputs& inputs, const Contract& contract, const Variant& variant, Tensor& out, Tensor& lse);
// The same of some rows: dv numbers each, one row after the other.
std::vector<double> run_rows(const Inputs& inputs, const Contract& contract, const Variant& variant,
                             std::span<const RowIndex> rows);

}  // namespace attest::emulator
