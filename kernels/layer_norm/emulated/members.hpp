#pragma once
#include <cstdint>
#include <string>

#include "kernels/layer_norm/emulated/emulator.hpp"

// Kernels of an ensemble, as kernels/emulated/members.hpp has those of attention.
namespace attest::emulator::layer_norm {

// Returns member n of the ensemble of `seed`, on rows of `hidden` elements, drawn as draw_scheme() does, but in no
// order that looks at the numbers. One of each four members is left so; two have a root that errs by all that the
// contract permits, up and down; one adds one by one, forward or backward, where the contract permits it. Every second
// of the others has a root that is rounded once.
Scheme member_scheme(const Contract& contract, Index hidden, bool rms, std::uint64_t seed, int n);

std::string in_words(const Scheme& scheme);

}  // namespace attest::emulator::layer_norm
