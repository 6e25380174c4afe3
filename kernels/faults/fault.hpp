#pragma once
#include <array>

#include "kernels/fused/variants.hpp"
#include "kernels/registry.hpp"

namespace attest::kernels::faults {

// A fault: its steps derive from its parent's and replace one of them. It promises what the parent promises.
template <class Parent, class Steps>
constexpr KernelEntry fault(std::string_view name, std::string_view doc, std::string_view report,
                            std::string_view parent, std::string_view family, std::string_view stage) {
  return {name, doc, report, parent, family, stage, fused_contract<Parent>, fused_attention<Steps>};
}

// The bias of a piece of at most `tile` keys, in the score format; zeros if there is none.
template <class Real, Index tile>
std::array<Real, tile> bias_of(const Call& call, const Piece& piece) {
  std::array<Real, tile> bias{};
  add_bias(call, piece, bias.data());
  return bias;
}

// CleanSteps::cap_and_bias with another bias.
template <class Real>
void cap_and_add(const Call& call, const Piece& piece, const Real* bias, Real* s) {
  if (call.softcap_before_bias) apply_softcap(call, s, piece.n);
  for (Index j = 0; j < piece.n; ++j) s[j] = static_cast<Real>(round_to(call[Stage::score], s[j] + bias[j]));
  if (!call.softcap_before_bias) apply_softcap(call, s, piece.n);
}

}  // namespace attest::kernels::faults
