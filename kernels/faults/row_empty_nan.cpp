#include "kernels/faults/fault.hpp"

namespace attest::kernels::faults {
namespace {

struct RowEmptyNan : CleanSteps {
  template <class Real>
  static void empty_row(const Call& call, Index, Index, Index, Real* out) {
    std::fill(out, out + call.dv, std::numeric_limits<Real>::quiet_NaN());
  }
};

}  // namespace

extern constexpr KernelEntry row_empty_nan = fault<CleanSteps, RowEmptyNan>(
    "row-empty-nan", "a row without open keys is NaN", "PT#103749, #110213, #109517, #190486, ORT#27831, MLX#2395",
    "fused", "empty row", "empty row");

}  // namespace attest::kernels::faults
