#pragma once
#include <span>
#include <string_view>
#include <vector>

#include "attest/plugin.h"
#include "core/contract.hpp"
#include "core/forms.hpp"

namespace attest::kernels {

// A kernel that lives here. What the command line calls builtin:NAME or fault:NAME.
struct KernelEntry {
  std::string_view name;
  std::string_view doc;
  std::string_view report;  // of a fault: the public report behind it, such as "PT#139462"
  std::string_view parent;  // of a fault: the kernel it departs from, by name
  std::string_view family;  // of a fault: those that go wrong alike have one
  std::string_view
      stage;  // of a fault: where it goes wrong, a stage of the policy or what lies beside these (faults/README.md)
  // What the kernel promises under a policy; a fault promises what its parent does.
  Contract (*contract)(const Policy& policy);
  // Runs the call under contract.policy; empty rows and the order of softcap and bias follow the contract too. Any shape of the
  // domain of attest/plugin.h, sizes of 0 included. Safe to call from many threads at once.
  // Throws Error(usage) if q, k, v and out are not of the policy's storage format; std::bad_alloc.
  void (*run)(const attest_attention& attention, const Contract& contract);
  const std::vector<FormOffer>& (*forms)() = nullptr;  // how a call may be said; nullptr: in one way
};

// Correct kernels, the plain ones first.
std::span<const KernelEntry> builtin_kernels();
// Planted defects, in the order of the catalogue.
std::span<const KernelEntry> fault_kernels();

// By name; nullptr if there is none.
const KernelEntry* find_kernel(std::span<const KernelEntry> kernels, std::string_view name) noexcept;

}  // namespace attest::kernels
