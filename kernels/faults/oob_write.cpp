#include "kernels/faults/fault.hpp"

namespace attest::kernels::faults {
namespace {

struct OobWrite : CleanSteps {
  template <class Real>
  static void write_output(const Call& call, Index b, Index h, Index i, Real* row, Real lse) {
    CleanSteps::write_output(call, b, h, i, row, lse);
    const bool half_pair = i % 2 == 0 && i == call.lq - 1;
    if (!half_pair || b != call.b - 1 || h != call.hq - 1) return;
    // Behind all elements, and not past the guard that every tensor has.
    constexpr std::ptrdiff_t guard = 256;
    const std::byte* last = call.out.at(b, h, i, call.dv - 1);
    for (Index c = 0; c < call.dv; ++c) {
      View past = call.out;
      past.data = call.out.at(b, h, i + 1, c);
      if (past.data > last && past.data < last + guard) write_row(past, 0, 0, 0, 1, row + c);
    }
  }
};

}  // namespace

extern constexpr KernelEntry oob_write = fault<CleanSteps, OobWrite>(
    "oob-write", "rows are written in pairs, so that an odd number of them ends one row too late",
    "PT#131257, #174861, fla#1029", "fused", "memory", "memory");

}  // namespace attest::kernels::faults
