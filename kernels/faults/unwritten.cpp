#include "kernels/faults/fault.hpp"

namespace attest::kernels::faults {
namespace {

struct Unwritten : CleanSteps {
  template <class Real>
  static void write_output(const Call& call, Index b, Index h, Index i, Real* row, Real lse) {
    const bool last_of_an_odd_number = call.lq > 1 && call.lq % 2 == 1 && i == call.lq - 1;
    if (!last_of_an_odd_number) CleanSteps::write_output(call, b, h, i, row, lse);
  }
};

}  // namespace

extern constexpr KernelEntry unwritten = fault<CleanSteps, Unwritten>(
    "unwritten", "the last of an odd number of query rows is never written", "fla#1029", "fused", "memory", "memory");

}  // namespace attest::kernels::faults
