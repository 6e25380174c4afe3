#include "kernels/faults/fault.hpp"

namespace attest::kernels::faults {
namespace {

struct ConvertTruncates : CleanSteps {
  template <class Real>
  static void write_output(const Call& call, Index b, Index h, Index i, Real* row, Real lse) {
    for (Index c = 0; c < call.dv; ++c)
      row[c] = static_cast<Real>(truncated(call[Stage::output], static_cast<double>(row[c])));
    CleanSteps::write_output(call, b, h, i, row, lse);
  }
};

}  // namespace

extern constexpr KernelEntry convert_truncates = fault<CleanSteps, ConvertTruncates>(
    "convert-truncates", "the output is converted to 16 bits by cutting digits off, not by rounding to nearest",
    "common slip", "fused", "output", "output");

}  // namespace attest::kernels::faults
