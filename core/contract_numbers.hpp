#pragma once
#include "core/contract.hpp"

namespace attest {

// Throws Error(usage) if an exp or a division of this contract may err by the whole of its result, or if it says twice
// how accumulators round, or that they round to fewer bits than their stages keep (mma). An error in ulps is as large
// as the format of its stage is coarse: exp_ulp must lie below 1024 where softmax is f16 or tf32, below 128 where it is
// bf16.
void check_numbers(const Contract& contract);

}  // namespace attest
