#pragma once
#include <span>
#include <string_view>
#include <vector>

#include "attest/plugin.h"
#include "core/contract.hpp"
#include "core/forms.hpp"

namespace attest::kernels {

// A kernel that lives here. The command line calls it builtin:NAME or fault:NAME.
struct KernelEntry {
  std::string_view name;
  std::string_view doc;
  std::string_view report;  // for a fault: the public report behind it, such as "PT#139462"
  std::string_view parent;  // for a fault: the kernel it departs from, by name
  std::string_view family;  // for a fault: its family; faults that go wrong alike share one
  std::string_view
      stage;  // for a fault: where it goes wrong, a stage of the policy or a place beside these (faults/README.md)
  // Returns the promises of the kernel under a policy; a fault promises the same as its parent.
  Contract (*contract)(const Policy& policy);
  // Runs the call under contract.policy; empty rows and the order of softcap and bias follow the contract too. Takes
  // any shape of the domain of attest/plugin.h, sizes of 0 included. Safe to call from many threads at once. Throws
  // Error(usage) if q, k, v and out are not of the policy's storage format; std::bad_alloc.
  void (*run)(const attest_attention& attention, const Contract& contract);
  const std::vector<FormOffer>& (*forms)() = nullptr;  // forms of a call; nullptr: one form
};

// Correct kernels, the plain ones first.
std::span<const KernelEntry> builtin_kernels();
// Planted defects, in the order of the catalogue.
std::span<const KernelEntry> fault_kernels();

// Returns the kernel of that name; nullptr if there is none.
const KernelEntry* find_kernel(std::span<const KernelEntry> kernels, std::string_view name) noexcept;

}  // namespace attest::kernels
