#include <array>

#include "kernels/registry.hpp"

// The faults, one line each, in the order of the catalogue; each is defined in the file of its name.
#define ATTEST_FAULTS(ENTRY) \
  ENTRY(scale_missing)       \
  ENTRY(scale_twice)         \
  ENTRY(scale_on_value)      \
  ENTRY(causal_corner)       \
  ENTRY(mask_finite)         \
  ENTRY(row_empty_nan)       \
  ENTRY(tail_included)       \
  ENTRY(rescale_missing)     \
  ENTRY(qk_acc_f16)          \
  ENTRY(batch_leak)          \
  ENTRY(batch_path)          \
  ENTRY(batch_split)         \
  ENTRY(strides_ignored)     \
  ENTRY(oob_read)            \
  ENTRY(softcap_after_bias)

namespace attest::kernels {

#define ATTEST_DECLARE(name)     \
  namespace faults {             \
  extern const KernelEntry name; \
  }
ATTEST_FAULTS(ATTEST_DECLARE)
#undef ATTEST_DECLARE

std::span<const KernelEntry> fault_kernels() {
#define ATTEST_NAME(name) faults::name,
  static const std::array entries{ATTEST_FAULTS(ATTEST_NAME)};
#undef ATTEST_NAME
  return entries;
}

}  // namespace attest::kernels
