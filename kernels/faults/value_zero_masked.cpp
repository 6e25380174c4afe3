#include "kernels/faults/fault.hpp"

namespace attest::kernels::faults {
namespace {

struct ValueZeroMasked : CleanSteps {
  template <class Real>
  static void mask(const Call& call, const Piece& piece, Real* s) {
    CleanSteps::mask(call, piece, s);
    for (Index j = 0; j < piece.n; ++j)
      if (is_zero<Real>(call, piece, piece.j0 + j)) s[j] = -std::numeric_limits<Real>::infinity();
  }
  template <class Real>
  static bool is_zero(const Call& call, const Piece& piece, Index j) {
    for (Index c = 0; c < call.dv; ++c) {
      Real value;
      read_block(call.v.at(piece.b, kv_head(call, piece.h), j, c), call.v.type, {1, 1}, &value);
      if (value != 0) return false;
    }
    return true;
  }
};

}  // namespace

extern constexpr KernelEntry value_zero_masked = fault<CleanSteps, ValueZeroMasked>(
    "value-zero-masked", "a key whose value is all zeros is taken for padding and closed", "common slip", "fused",
    "mask lost", "mask");

}  // namespace attest::kernels::faults
