#include "kernels/faults/fault.hpp"

namespace attest::kernels::faults {
namespace {

struct SoftcapDropped : CleanSteps {
  template <class Real>
  static void cap_and_bias(const Call& call, const Piece& piece, Real* s) {
    add_bias(call, piece, s);
  }
};

}  // namespace

extern constexpr KernelEntry softcap_dropped = fault<CleanSteps, SoftcapDropped>(
    "softcap-dropped", "the softcap is ignored", "sgl-kernel-xpu#491", "fused", "softcap", "softcap");

}  // namespace attest::kernels::faults
