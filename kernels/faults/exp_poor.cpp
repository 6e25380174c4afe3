#include <cmath>

#include "kernels/faults/fault.hpp"

namespace attest::kernels::faults {
namespace {

struct ExpPoor : CleanSteps {
  // Powers that were right, for arguments x = n ln 2 + r: as a polynomial of the third degree in r gives them.
  template <class Real>
  static Real cut_short(Format format, Real power, Real x) {
    const double n = std::nearbyint(static_cast<double>(x) * std::numbers::log2e);
    const double r = static_cast<double>(x) - n * std::numbers::ln2, r2 = r * r;
    if (!(power > 0) || !(r2 < 1)) return power;  // 0, infinite or NaN
    return static_cast<Real>(round_to(format, static_cast<double>(power) * (1 - r2 * r2 / 24)));
  }
  template <class Real>
  static Real power(const Call& call, Base base, Real x) {
    return cut_short(call[Stage::softmax], CleanSteps::power(call, base, x), x);
  }
  template <class Real>
  static void powers(const Call& call, Base base, const Real* s, Real shift, Index n, Real* weights) {
    CleanSteps::powers(call, base, s, shift, n, weights);
    for (Index j = 0; j < n; ++j) weights[j] = cut_short(call[Stage::softmax], weights[j], s[j] - shift);
  }
};

}  // namespace

extern constexpr KernelEntry exp_poor = fault<CleanSteps, ExpPoor>("exp-poor", "exp is off by up to 6e-4 of itself",
                                                                   "common slip", "fused", "narrow softmax", "softmax");

}  // namespace attest::kernels::faults
