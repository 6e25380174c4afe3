#pragma once
#include "core/problem.hpp"

namespace attest::testing {

// A small random attention problem over the whole domain: grouped heads, masks, bias, lengths, windows, softcap, both
// corners, scales of any sign. `lk_max` bounds the keys.
Problem draw_problem(Format dtype, std::uint64_t seed, Index lk_max = 40);

}  // namespace attest::testing
