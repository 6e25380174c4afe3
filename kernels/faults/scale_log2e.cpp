#include "kernels/faults/fault.hpp"

namespace attest::kernels::faults {
namespace {

// In units of log 2 the scores have grown by log2 e; a bias added to them as it is counts ln 2 of what it should.
struct ScaleLog2e : Exp2Steps {
  template <class Real>
  static void cap_and_bias(const Call& call, const Piece& piece, Real* s) {
    if (!call.bias) return Exp2Steps::cap_and_bias(call, piece, s);
    std::array<Real, tile> bias = bias_of<Real, tile>(call, piece);
    scale_all(call[Stage::score], std::numbers::ln2_v<Real>, bias.data(), piece.n);
    cap_and_add(call, piece, bias.data(), s);
  }
};

}  // namespace

extern constexpr KernelEntry scale_log2e =
    fault<Exp2Steps, ScaleLog2e>("scale-log2e", "scores are multiplied by log2 e for the sake of exp2, the bias is not",
                                 "common slip", "fused-exp2", "scaled bias", "score");

}  // namespace attest::kernels::faults
