#include <array>

#include "kernels/registry.hpp"

// The faults, one line each, in the order of the catalogue; each is defined in the file of its name.
#define ATTEST_FAULTS(ENTRY) \
  ENTRY(scale_missing)       \
  ENTRY(scale_twice)         \
  ENTRY(scale_on_value)      \
  ENTRY(scale_default_kept)  \
  ENTRY(causal_corner)       \
  ENTRY(causal_off_by_one)   \
  ENTRY(window_off_by_one)   \
  ENTRY(mask_finite)         \
  ENTRY(mask_dropped)        \
  ENTRY(padding_right_only)  \
  ENTRY(kv_length_ignored)   \
  ENTRY(value_zero_masked)   \
  ENTRY(row_empty_nan)       \
  ENTRY(tail_included)       \
  ENTRY(tail_dropped)        \
  ENTRY(rescale_missing)     \
  ENTRY(rescale_tail)        \
  ENTRY(max_init_zero)       \
  ENTRY(lse_wrong_base)      \
  ENTRY(lse_empty)           \
  ENTRY(split_merge)         \
  ENTRY(qk_acc_f16)          \
  ENTRY(pv_acc_f16)          \
  ENTRY(query_floor)         \
  ENTRY(output_clamped)      \
  ENTRY(batch_leak)          \
  ENTRY(batch_mask)          \
  ENTRY(batch_path)          \
  ENTRY(batch_split)         \
  ENTRY(gqa_modulo)          \
  ENTRY(strides_ignored)     \
  ENTRY(unwritten)           \
  ENTRY(race)                \
  ENTRY(thread_split)        \
  ENTRY(state_kept)          \
  ENTRY(oob_read)            \
  ENTRY(masked_read)         \
  ENTRY(nan_masked)          \
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
