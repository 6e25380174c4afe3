#include <array>

#include "kernels/registry.hpp"

// The faults, one line each, in the order of the catalogue; each is defined in the file of its name.
#define ATTEST_FAULTS(ENTRY)  \
  ENTRY(scale_missing)        \
  ENTRY(scale_twice)          \
  ENTRY(scale_sqrt_once)      \
  ENTRY(scale_on_value)       \
  ENTRY(scale_default_kept)   \
  ENTRY(scale_embed_dim)      \
  ENTRY(scale_after_mask)     \
  ENTRY(scale_log2e)          \
  ENTRY(form_scale_default)   \
  ENTRY(causal_corner)        \
  ENTRY(causal_off_by_one)    \
  ENTRY(window_off_by_one)    \
  ENTRY(mask_finite)          \
  ENTRY(mask_lowest_infinite) \
  ENTRY(mask_multiply)        \
  ENTRY(mask_bool_coerced)    \
  ENTRY(mask_dropped)         \
  ENTRY(padding_right_only)   \
  ENTRY(kv_length_ignored)    \
  ENTRY(value_zero_masked)    \
  ENTRY(row_empty_nan)        \
  ENTRY(row_lowest_empty)     \
  ENTRY(tail_included)        \
  ENTRY(tail_dropped)         \
  ENTRY(rescale_missing)      \
  ENTRY(rescale_sum_only)     \
  ENTRY(rescale_tail)         \
  ENTRY(max_init_zero)        \
  ENTRY(max_first_tile)       \
  ENTRY(no_max_subtraction)   \
  ENTRY(lse_wrong_base)       \
  ENTRY(lse_empty)            \
  ENTRY(split_merge)          \
  ENTRY(qk_acc_f16)           \
  ENTRY(pv_acc_f16)           \
  ENTRY(softmax_f16)          \
  ENTRY(sum_overflow_f16)     \
  ENTRY(partials_bf16)        \
  ENTRY(scores_overflow_f16)  \
  ENTRY(p_unnormalised_flush) \
  ENTRY(convert_truncates)    \
  ENTRY(bits_dropped)         \
  ENTRY(exp_poor)             \
  ENTRY(query_floor)          \
  ENTRY(output_clamped)       \
  ENTRY(batch_leak)           \
  ENTRY(batch_mask)           \
  ENTRY(batch_path)           \
  ENTRY(batch_split)          \
  ENTRY(gqa_modulo)           \
  ENTRY(strides_ignored)      \
  ENTRY(layout_swapped)       \
  ENTRY(alignment_assumed)    \
  ENTRY(oob_write)            \
  ENTRY(oob_read)             \
  ENTRY(unwritten)            \
  ENTRY(input_modified)       \
  ENTRY(race)                 \
  ENTRY(thread_split)         \
  ENTRY(state_kept)           \
  ENTRY(masked_read)          \
  ENTRY(nan_masked)           \
  ENTRY(softcap_dropped)      \
  ENTRY(softcap_after_bias)   \
  ENTRY(bias_broadcast)       \
  ENTRY(alibi_offset)

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
