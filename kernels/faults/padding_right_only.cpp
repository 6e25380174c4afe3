#include "kernels/faults/fault.hpp"

namespace attest::kernels::faults {
namespace {

struct PaddingRightOnly : CleanSteps {
  template <class Real>
  static void mask(const Call& call, Piece piece, Real* s) {
    if (!call.keep) return CleanSteps::mask(call, piece, s);
    // Counts of the rows of a block, each made at its row's first piece: at every piece they cost keys squared.
    constexpr Index rows = FusedBlock<PaddingRightOnly, Real>::rows_max;
    thread_local std::array<Index, rows> counts;
    Index& kept = counts[static_cast<std::size_t>(piece.i % rows)];
    if (piece.open.lo >= piece.j0) {
      kept = 0;
      for (Index j = 0; j < call.lk; ++j) kept += *call.keep.at(piece.b, piece.h, piece.i, j) != std::byte{0};
    }
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
