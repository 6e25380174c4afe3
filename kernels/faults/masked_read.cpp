#include <numeric>

#include "kernels/faults/fault.hpp"

namespace attest::kernels::faults {
namespace {

struct MaskedRead : CleanSteps {
  template <class Real>
  static void weigh_values(const Call& call, const Piece& piece, const Real* weights, const std::int32_t*, Index,
                           const Real* values, Real* output) {
    std::array<std::int32_t, tile> all;
    std::iota(all.begin(), all.end(), 0);
    CleanSteps::weigh_values(call, piece, weights, all.data(), piece.n, values, output);
  }
};

}  // namespace

extern constexpr KernelEntry masked_read = fault<CleanSteps, MaskedRead>(
    "masked-read", "values of masked keys are read and weighed by 0, which keeps their NaN",
    "FI#942, FA#1745, PT#101967", "fused", "masked contents", "pv");

}  // namespace attest::kernels::faults
