#include <cmath>

#include "kernels/faults/fault.hpp"
#include "kernels/fused/any_scale.hpp"

namespace attest::kernels::faults {
namespace {

struct DefaultIntoQueries : ScaledQuerySteps {
  template <class Real>
  static void load_queries(const Call& call, Index b, Index h, Index i0, Index rows, Real* queries) {
    Call usual = call;
    usual.scale = round_to(call[Stage::scale], 1 / std::sqrt(static_cast<double>(call.d)));
    ScaledQuerySteps::load_queries(usual, b, h, i0, rows, queries);
  }
};

}  // namespace

extern constexpr KernelEntry form_scale_default = {
    "form-scale-default",
    "said to go into the queries, the scale is 1/sqrt(D) whatever the call says",
    "PT#174361",
    "fused-forms",
    "scale",
    "scale",
    any_scale_contract,
    any_scale_attention<DefaultIntoQueries>,
    any_scale_forms};

}  // namespace attest::kernels::faults
