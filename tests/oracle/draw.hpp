#pragma once
#include "core/contract.hpp"
#include "core/problem.hpp"

namespace attest::testing {

// A small random attention problem over the whole domain: grouped heads, masks, bias, lengths, windows, softcap, both
// corners, scales of any sign. `lk_max` bounds the keys.
Problem draw_problem(Format dtype, std::uint64_t seed, Index lk_max = 40);

// A contract on `policy` that departs from the defaults in one number, or in few; variant 0 departs in none.
inline constexpr int contract_variants = 21;
Contract draw_contract(const Policy& policy, int variant);

}  // namespace attest::testing
