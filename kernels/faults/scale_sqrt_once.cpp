#include "kernels/faults/fault.hpp"

namespace attest::kernels::faults {
namespace {

struct ScaleSqrtOnce : ScaledRootsSteps {
  template <class Real>
  static void load_keys(const Call& call, Index b, Index kv_head, Index j0, Index n, Index width, Real* keys) {
    kernels::load_keys(call, b, kv_head, j0, n, width, keys);
  }
};

}  // namespace

extern constexpr KernelEntry scale_sqrt_once = fault<ScaledRootsSteps, ScaleSqrtOnce>(
    "scale-sqrt-once", "the root of the scale multiplies the queries but not the keys", "TRT#4333 family",
    "fused-scale-sqrt", "scale", "scale");

}  // namespace attest::kernels::faults
