#include "kernels/faults/fault.hpp"

namespace attest::kernels::faults {
namespace {

struct OobRead : CleanSteps {
  template <class Real>
  static void weigh_values(const Call& call, const Piece& piece, const Real* weights, const std::int32_t* open,
                           Index count, const Real* values, Real* output) {
    CleanSteps::weigh_values(call, piece, weights, open, count, values, output);
    if (piece.n == tile) return;
    // The read stays inside the guard that every tensor has.
    constexpr std::ptrdiff_t guard = 256;
    const std::byte* end = call.v.at(call.b - 1, call.hkv - 1, call.lk - 1, call.dv - 1) + guard;
    for (Index c = 0; c < call.dv; ++c) {
      const std::byte* past = call.v.at(piece.b, kv_head(call, piece.h), piece.j0 + piece.n, c);
      if (past > end) break;
      Real value;
      read_block(past, call.v.type, {1, 1}, &value);
      output[c] += 0 * value;
    }
  }
};

}  // namespace

extern constexpr KernelEntry oob_read =
    fault<CleanSteps, OobRead>("oob-read", "the last partial tile reads one value row too many, with weight 0",
                               "FI#942, FA#1745, PT#101967, TT#41215", "fused", "memory", "memory");

}  // namespace attest::kernels::faults
