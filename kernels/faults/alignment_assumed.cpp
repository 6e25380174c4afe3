#include "kernels/faults/fault.hpp"

namespace attest::kernels::faults {
namespace {

struct AlignmentAssumed : CleanSteps {
  // Rows of whole 16-byte registers are read by loads that drop the low bits of their address.
  template <class Real>
  static void load_keys(const Call& call, Index b, Index kv_head, Index j0, Index n, Index width, Real* keys) {
    CleanSteps::load_keys(call, b, kv_head, j0, n, width, keys);
    constexpr Index load = 16;
    if (call.d * static_cast<Index>(size_of(call.k.type)) % load != 0 || call.k.strides[3] != 1) return;
    for (Index j = 0; j < n; ++j) {
      const std::byte* row = call.k.at(b, kv_head, j0 + j);
      const auto low = static_cast<Index>(reinterpret_cast<std::uintptr_t>(row) % load);
      if (low != 0) read_block(row - low, call.k.type, {1, call.d, 0, 1, 0, padded(width)}, keys + j);
    }
  }
};

}  // namespace

extern constexpr KernelEntry alignment_assumed = fault<CleanSteps, AlignmentAssumed>(
    "alignment-assumed", "rows of keys that are not 16-byte aligned are read from the aligned address before them",
    "FA#2552 family", "fused", "layout", "reading");

}  // namespace attest::kernels::faults
