#include "kernels/faults/fault.hpp"

namespace attest::kernels::faults {
namespace {

void clearing_values(const attest_attention& attention, const Contract& contract) {
  const attest_tensor& v = attention.v;
  if (attest_present(&attention.kv_lengths)) {
    for (Index b = 0; b < v.shape[0]; ++b)
      for (Index h = 0; h < v.shape[1]; ++h)
        for (auto j = static_cast<Index>(load(attention.kv_lengths, b)); j < v.shape[2]; ++j)
          for (Index c = 0; c < v.shape[3]; ++c) store(v, b, h, j, c, 0);
  }
  fused_attention<CleanSteps>(attention, contract);
}

}  // namespace

extern constexpr KernelEntry input_modified{
    "input-modified",
    "values past a key length are zeroed where they lie, in the caller's tensor",
    "common slip",
    "fused",
    "memory",
    "memory",
    fused_contract<CleanSteps>,
    clearing_values};

}  // namespace attest::kernels::faults
