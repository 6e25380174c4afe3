#include "kernels/faults/fault.hpp"

namespace attest::kernels::faults {
namespace {

struct AlibiOffset : CleanSteps {
  template <class Real>
  static void cap_and_bias(const Call& call, const Piece& piece, Real* s) {
    const Index past = std::max<Index>(call.lk - call.lq, 0);
    for (Index j = 0; j < piece.n; ++j) {
      const Index column = std::max<Index>(piece.j0 + j - past, 0);
      CleanSteps::cap_and_bias(call, {piece.b, piece.h, piece.i, column, 1, piece.open}, s + j);
    }
  }
};

}  // namespace

extern constexpr KernelEntry alibi_offset = fault<CleanSteps, AlibiOffset>(
    "alibi-offset", "with more keys than queries a key takes the bias of the key that many places before it",
    "vllm#945", "fused", "bias", "score");

}  // namespace attest::kernels::faults
