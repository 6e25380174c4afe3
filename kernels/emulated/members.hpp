#pragma once
#include <cstdint>
#include <string>

#include "kernels/emulated/emulator.hpp"

// Kernels of an ensemble: schemes that keep a contract, spread over what it permits.
namespace attest::emulator {

// Returns member n of the ensemble of `seed`. Scheme, exp2, fma and the place of the scale are enumerated, in an order
// drawn from the seed; all else is drawn as draw_variant() does. One of each four members is otherwise left as drawn,
// two take each freedom to an end of its own, and one adds in order.
Variant member_variant(const Contract& contract, const Problem& problem, std::uint64_t seed, int n);

// A scheme in words: "online in tiles of 16, forward sums, exp2, scale on q".
std::string in_words(const Variant& variant);

}  // namespace attest::emulator
