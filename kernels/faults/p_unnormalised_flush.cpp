#include "kernels/faults/fault.hpp"

namespace attest::kernels::faults {
namespace {

struct PUnnormalisedFlush : CleanSteps {
  template <class Real>
  static void weigh_values(const Call& call, const Piece& piece, const Real* weights, const std::int32_t* open,
                           Index count, const Real* values, Real* output) {
    std::array<Real, tile> normal{};
    for (Index j = 0; j < piece.n; ++j)
      if (!(weights[j] < 0x1p-14)) normal[static_cast<std::size_t>(j)] = weights[j];  // normal f16
    CleanSteps::weigh_values(call, piece, normal.data(), open, count, values, output);
  }
};

}  // namespace

extern constexpr KernelEntry p_unnormalised_flush = fault<CleanSteps, PUnnormalisedFlush>(
    "p-unnormalised-flush", "weights below the smallest normal f16 are flushed to zero after the sum has taken them in",
    "LC#13991 family", "fused", "narrow weights", "weights");

}  // namespace attest::kernels::faults
