#pragma once
#include <cstdint>
#include <optional>

#include "core/mha/contract.hpp"
#include "core/mha/inputs.hpp"
#include "kernels/emulated/emulator.hpp"

// An attention block in emulated arithmetic: every operation is rounded to the format that the contract names, by a
// scheme that the contract permits. Slow and plain; knows nothing of the oracle.
namespace attest::emulator {

// The order in which a product of two matrices adds its terms. `greedy` takes always the one whose rounding moves the
// sum furthest to the side that `Sums::side` says.
enum class SumOrder : std::uint8_t { forward, backward, pairwise, lanes, random, greedy };

struct Sums {
  SumOrder order = SumOrder::forward;
  Index lanes = 8, block = 1, splits = 1;
  bool fma = false, truncate = false, bias_first = false;
  int side = 1;  // side of greedy
  std::uint64_t seed = 1;
  // The contract's rules: the format that factors are rounded to as they enter, toward zero or to nearest; the blocks
  // of tensor cores; whether subnormal numbers are flushed, be they read or made. Numbers that are read are of
  // `storage`.
  std::optional<Format> operand{};
  bool cut_operand = false, flush = false;
  Format storage = Format::f32;
  std::optional<Mma> mma{};
};

enum class BlockDefect : std::uint8_t {
  none,
  order_swapped,      // the order of w_q, w_k, w_v: k and v are swapped
  order_q_k,          // q and k
  order_interleaved,  // a packed projection read as [heads,3,head_dim] where it is [3,heads,head_dim]
  no_b_q,
  no_b_k,
  no_b_v,
  no_b_out,
  no_transpose,  // the heads are concatenated as [heads,l,head_dim]
  gemm_16,       // the projections accumulate in a 16-bit format
  gemm_out_16,   // the output projection does
  softmax_16,    // the softmax does
};

struct BlockVariant {
  mha::Projected projected = mha::Projected::rounded;
  bool heads_rounded = true;
  Sums in, out;  // sums of the three projections, and of the last
  Variant attention;
  BlockDefect defect = BlockDefect::none;
};

// A scheme that keeps `contract`. `hostile`: sums err to one side as far as an order lets them.
BlockVariant draw_block_variant(const mha::Contract& contract, const mha::Problem& problem, std::uint64_t seed,
                                bool hostile = false);

// Returns member n of the ensemble of `seed` (kernels/emulated/members.hpp), drawn, but with sums in no order that
// looks at the numbers. Every second one has an attention that is such a member.
BlockVariant member_variant(const mha::Contract& contract, const mha::Problem& problem, std::uint64_t seed, int n);

// Writes every element of `call.out`.
void run(const mha::Call& call, const mha::Contract& contract, const BlockVariant& variant);

}  // namespace attest::emulator
