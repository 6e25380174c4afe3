#include "kernels/registry.hpp"

#include <algorithm>

namespace attest::kernels {

const KernelEntry* find_kernel(std::span<const KernelEntry> kernels, std::string_view name) noexcept {
  const auto found = std::ranges::find(kernels, name, &KernelEntry::name);
  return found == kernels.end() ? nullptr : &*found;
}

}  // namespace attest::kernels
