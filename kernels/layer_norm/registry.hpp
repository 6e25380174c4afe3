#pragma once
#include <span>
#include <string_view>

#include "attest/plugin.h"
#include "core/layer_norm/contract.hpp"

namespace attest::kernels::layer_norm {

// A kernel of layer_norm that lives here, as kernels/registry.hpp has those of attention.
struct KernelEntry {
  std::string_view name;
  std::string_view doc;
  std::string_view report;  // for a fault: the public report behind it
  std::string_view parent;  // for a fault: the kernel it departs from, by name
  std::string_view family;  // for a fault: its family; faults that go wrong alike share one
  std::string_view
      stage;  // for a fault: where it goes wrong, a stage of the policy or a place beside these (faults/README.md)
  attest::layer_norm::Contract (*contract)(const attest::layer_norm::Policy& policy);
  // Runs the call under contract.policy. Safe to call from many threads at once. Throws Error(usage) if tensors are not
  // of the policy's storage format.
  void (*run)(const attest_layer_norm& call, const attest::layer_norm::Contract& contract);
};

// Correct kernels, the plain ones first.
std::span<const KernelEntry> builtin_kernels();
// Planted defects, in the order of the catalogue.
std::span<const KernelEntry> fault_kernels();

const KernelEntry* find_kernel(std::span<const KernelEntry> kernels, std::string_view name) noexcept;

}  // namespace attest::kernels::layer_norm
