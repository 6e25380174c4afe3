#include "kernels/faults/fault.hpp"

namespace attest::kernels::faults {
namespace {

struct Steps : CleanSteps {
  template <class Real>
  static void truncate_all(Format format, Real* x, Index n) {
    for (Index i = 0; i < n; ++i) x[i] = static_cast<Real>(truncated(format, static_cast<double>(x[i])));
  }
  // Not rounded yet: the values are weighed by what is cut off below.
  static Format weights_format(const Call& call) { return call[Stage::softmax]; }
  template <class Real>
  static void weigh_values(const Call& call, const Piece& piece, const Real* weights, const std::int32_t* open,
                           Index count, const Real* values, Real* output) {
    std::array<Real, tile> cut;
    std::copy_n(weights, piece.n, cut.begin());
    truncate_all(call[Stage::weights], cut.data(), piece.n);
    CleanSteps::weigh_values(call, piece, cut.data(), open, count, values, output);
  }
  template <class Real>
  static void write_output(const Call& call, Index b, Index h, Index i, Real* row, Real lse) {
    truncate_all(call[Stage::output], row, call.dv);
    CleanSteps::write_output(call, b, h, i, row, lse);
  }
};

}  // namespace

extern constexpr KernelEntry convert_truncates = fault<CleanSteps, Steps>(
    "convert-truncates",
    "weights and output are converted to 16 bits by cutting digits off, not by rounding to nearest", "common slip",
    "fused");

}  // namespace attest::kernels::faults
