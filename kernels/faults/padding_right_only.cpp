#include "kernels/faults/fault.hpp"

namespace attest::kernels::faults {
namespace {

struct PaddingRightOnly : CleanSteps {
  template <class Real>
  static void mask(const Call& call, Piece piece, Real* s) {
    if (!call.keep) return CleanSteps::mask(call, piece, s);
    Index kept = 0;
    for (Index j = 0; j < call.lk; ++j) kept += *call.keep.at(piece.b, piece.h, piece.i, j) != std::byte{0};
    piece.open.hi = std::min(piece.open.hi, kept);
    Call prefix = call;
    prefix.keep = {};
    CleanSteps::mask(prefix, piece, s);
  }
};

}  // namespace

extern constexpr KernelEntry padding_right_only = fault<CleanSteps, PaddingRightOnly>(
    "padding-right-only", "a keep mask is taken for its number of keys, as if they came first", "ORT#18945", "fused",
    "mask lost", "mask");

}  // namespace attest::kernels::faults
