#pragma once
#include "kernels/fused/variants.hpp"
#include "kernels/registry.hpp"

namespace attest::kernels::faults {

// A fault: its steps derive from its parent's and replace one of them. It promises what the parent promises.
template <class Parent, class Steps>
constexpr KernelEntry fault(std::string_view name, std::string_view doc, std::string_view report,
                            std::string_view parent) {
  return {name, doc, report, parent, fused_contract<Parent>, fused_attention<Steps>};
}

}  // namespace attest::kernels::faults
