#include "kernels/faults/fault.hpp"

namespace attest::kernels::faults {
namespace {

struct WindowOffByOne : CleanSteps {
  template <class Real>
  static void mask(const Call& call, Piece piece, Real* s) {
    const Index on_diagonal = diagonal(call, piece.i, call.length(piece.b));
    if (call.window_left > 0) piece.open.lo = std::max(piece.open.lo, on_diagonal - call.window_left + 1);
    CleanSteps::mask(call, piece, s);
  }
};

}  // namespace

extern constexpr KernelEntry window_off_by_one =
    fault<CleanSteps, WindowOffByOne>("window-off-by-one", "the left window is one key short",
                                      "transformers#39408, vllm#3385", "fused", "diagonal", "mask");

}  // namespace attest::kernels::faults
