#pragma once
#include "core/contract.hpp"
#include "kernels/emulated/emulator.hpp"

namespace attest::emulator {

// A contract on `policy` that departs from the defaults in one number, or in few; variant 0 departs in none.
inline constexpr int contract_variants = 23;
Contract draw_contract(const Policy& policy, int variant);

// Draws a contract whose accumulators are tensor cores, of each generation and made-up ones; those that `policy` can
// have.
inline constexpr int mma_variants = 16;
Contract draw_mma_contract(const Policy& policy, int variant);

// Draws from both lists, one after the other.
inline constexpr int all_variants = contract_variants + mma_variants;
Contract draw_any_contract(const Policy& policy, int variant);

// The scale meets the score alone, and may bring log2 e along.
void fold_into_score(Contract& contract);

// `contract` without what `variant`, drawn from it, makes no use of: the narrowest promise that this scheme keeps.
Contract tightened(Contract contract, const Variant& variant);

}  // namespace attest::emulator
