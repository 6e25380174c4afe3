#pragma once
#include "core/contract.hpp"
#include "kernels/emulated/emulator.hpp"

namespace attest::emulator {

// A contract on `policy` that departs from the defaults in one number, or in few; variant 0 departs in none.
inline constexpr int contract_variants = 23;
Contract draw_contract(const Policy& policy, int variant);

// `contract` without what `variant`, drawn from it, makes no use of: the narrowest promise that this scheme keeps.
Contract tightened(Contract contract, const Variant& variant);

}  // namespace attest::emulator
