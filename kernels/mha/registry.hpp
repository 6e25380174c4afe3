#pragma once
#include <span>
#include <string_view>

#include "core/mha/contract.hpp"
#include "core/mha/inputs.hpp"

namespace attest::kernels {

// An attention block that lives here. The command line calls it builtin:mha-NAME or fault:NAME.
struct BlockEntry {
  std::string_view name, doc;
  std::string_view report;  // for a fault: the public report behind it
  std::string_view parent;  // for a fault: the block it departs from, by name
  // Returns the promises of the block under a policy; a fault promises the same as its parent.
  mha::Contract (*contract)(const mha::Policy& policy);
  // Writes every element of call.out. Throws Error(usage) if tensors are not of the policy's storage format.
  void (*run)(const mha::Call& call, const mha::Contract& contract);
  bool gives_stages = false;           // Call::stages
  std::string_view family{}, stage{};  // for a fault, as in kernels/registry.hpp
};

std::span<const BlockEntry> builtin_blocks();
// The blocks with faults, in the order of the catalogue.
std::span<const BlockEntry> fault_blocks();

// Returns the block of that name; nullptr if there is none.
const BlockEntry* find_kernel(std::span<const BlockEntry> blocks, std::string_view name) noexcept;

}  // namespace attest::kernels
