#pragma once
#include "kernels/layer_norm/emulated/emulator.hpp"

namespace attest::emulator::layer_norm {

using attest::layer_norm::Problem;

// Draws a policy, one with differing stages among them, and a contract on it that departs from the defaults in any of
// its numbers.
Contract draw_contract(std::uint64_t seed);
// Draws a problem for that contract: any regime, any size up to `most` elements in all.
Problem draw_problem(const Contract& contract, Index most, std::uint64_t seed);

}  // namespace attest::emulator::layer_norm
