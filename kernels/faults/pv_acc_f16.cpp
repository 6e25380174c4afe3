#include "kernels/faults/fault.hpp"

namespace attest::kernels::faults {
namespace {

struct PvAccF16 : CleanSteps {
  template <class Real>
  static void weigh_values(const Call& call, const Piece&, const Real* weights, const std::int32_t* open, Index count,
                           const Real* values, Real* output) {
    add_weighted(Format::f16, weights, open, count, values, padded(call.dv), call.dv, output);
  }
};

}  // namespace

extern constexpr KernelEntry pv_acc_f16 = fault<CleanSteps, PvAccF16>(
    "pv-acc-f16", "weights times values are accumulated in f16", "ik_llama.cpp#1196", "fused", "value sum", "pv");

}  // namespace attest::kernels::faults
