#include "kernels/faults/fault.hpp"

namespace attest::kernels::faults {
namespace {

struct TailDropped : CleanSteps {
  template <class Real>
  static void mask(const Call& call, const Piece& piece, Real* s) {
    CleanSteps::mask(call, piece, s);
    const bool tail = piece.n < tile && piece.j0 > 0;
    if (tail) std::fill(s, s + piece.n, -std::numeric_limits<Real>::infinity());
  }
};

}  // namespace

extern constexpr KernelEntry tail_dropped = fault<CleanSteps, TailDropped>(
    "tail-dropped", "the last partial tile is skipped", "PT#169222, FlagAttention#8", "fused", "tail", "softmax");

}  // namespace attest::kernels::faults
