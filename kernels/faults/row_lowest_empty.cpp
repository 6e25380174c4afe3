#include "kernels/faults/fault.hpp"

namespace attest::kernels::faults {
namespace {

struct RowLowestEmpty : CleanSteps {
  template <class Real>
  static void write_output(const Call& call, Index b, Index h, Index i, Real* row, Real lse) {
    const bool closed = call.bias && lse <= -0.99 * largest_finite(format_of(call.bias.type));
    if (closed) std::fill(row, row + call.dv, Real{0});
    CleanSteps::write_output(call, b, h, i, row, closed ? -std::numeric_limits<Real>::infinity() : lse);
  }
};

}  // namespace

extern constexpr KernelEntry row_lowest_empty = fault<CleanSteps, RowLowestEmpty>(
    "row-lowest-empty", "a row whose keys all have the lowest finite number as bias is taken for empty", "common slip",
    "fused", "empty row", "empty row");

}  // namespace attest::kernels::faults
