#include "kernels/layer_norm/registry.hpp"

#include <algorithm>
#include <array>

#include "kernels/layer_norm/explicit.hpp"
#include "kernels/layer_norm/fused.hpp"

// The faults, one line each, in the order of the catalogue; each is defined in a file of faults/, those of one step in
// one.
#define ATTEST_LAYER_NORM_FAULTS(ENTRY) \
  ENTRY(variance_cancel)                \
  ENTRY(f16_square)                     \
  ENTRY(bf16_reduce)                    \
  ENTRY(eps_outside)                    \
  ENTRY(tail)                           \
  ENTRY(policy_ignored)                 \
  ENTRY(count_less_one)                 \
  ENTRY(count_padded)                   \
  ENTRY(mean_bf16)                      \
  ENTRY(rsqrt_poor)                     \
  ENTRY(batch_path)                     \
  ENTRY(mean_kept)                      \
  ENTRY(rms_centred)                    \
  ENTRY(eps_default)                    \
  ENTRY(strides_ignored)                \
  ENTRY(gamma_offset)                   \
  ENTRY(beta_first)                     \
  ENTRY(norm_rounded)                   \
  ENTRY(residual_first_row)             \
  ENTRY(residual_twice)                 \
  ENTRY(residual_after)                 \
  ENTRY(sum_unrounded)

namespace attest::kernels::layer_norm {

#define ATTEST_DECLARE_FAULT(name) \
  namespace faults {               \
  extern const KernelEntry name;   \
  }
ATTEST_LAYER_NORM_FAULTS(ATTEST_DECLARE_FAULT)
#undef ATTEST_DECLARE_FAULT

namespace {

template <class Steps>
constexpr KernelEntry fused(std::string_view name, std::string_view doc) {
  return {name, doc, {}, {}, {}, {}, fused_contract<Steps>, fused_layer_norm<Steps>};
}

constexpr std::array correct{
    KernelEntry{"explicit", "step by step, sums one by one", {}, {}, {}, {}, explicit_contract, explicit_layer_norm},
    fused<TwoPass>("fused", "the mean, then the mean of squared differences, in eight lanes"),
    fused<TwoPassCorrected>("fused-corrected", "as fused, less the square of the mean difference"),
    fused<Welford>("fused-welford", "one pass in four lanes, merged by the difference of their means"),
    fused<Shifted>("fused-shifted", "one pass about the first element"),
    fused<PairwiseSteps>("fused-pairwise", "as fused, sums in halves of halves"),
    fused<OnePass>("fused-one-pass", "E[x^2] - E[x]^2, which its contract declares"),
};

}  // namespace

std::span<const KernelEntry> builtin_kernels() { return correct; }

std::span<const KernelEntry> fault_kernels() {
#define ATTEST_NAME_FAULT(name) faults::name,
  static const std::array entries{ATTEST_LAYER_NORM_FAULTS(ATTEST_NAME_FAULT)};
#undef ATTEST_NAME_FAULT
  return entries;
}

const KernelEntry* find_kernel(std::span<const KernelEntry> kernels, std::string_view name) noexcept {
  const auto found = std::ranges::find(kernels, name, &KernelEntry::name);
  return found == kernels.end() ? nullptr : &*found;
}

}  // namespace attest::kernels::layer_norm
