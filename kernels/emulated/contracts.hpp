#pragma once
#include "core/contract.hpp"

namespace attest::emulator {

// A contract on `policy` that departs from the defaults in one number, or in few; variant 0 departs in none.
inline constexpr int contract_variants = 21;
Contract draw_contract(const Policy& policy, int variant);

}  // namespace attest::emulator
