#include "kernels/faults/fault.hpp"

namespace attest::kernels::faults {
namespace {

struct NanMasked : CleanSteps {
  template <class Real>
  static void mask(const Call& call, const Piece& piece, Real* s) {
    CleanSteps::mask(call, piece, s);
    for (Index j = 0; j < piece.n; ++j)
      if (s[j] != s[j]) s[j] = -std::numeric_limits<Real>::infinity();
  }
};

}  // namespace

extern constexpr KernelEntry nan_masked =
    fault<CleanSteps, NanMasked>("nan-masked", "a score that is NaN counts as a masked key, so that the NaN is lost",
                                 "common slip", "fused", "NaN", "softmax");

}  // namespace attest::kernels::faults
