#pragma once
#include <array>
#include <functional>

#include "core/tensor.hpp"

namespace attest::properties {

// Calls visit({i0, i1, i2, i3}) for each NaN or infinity of a floating-point tensor in the order of the indices, until
// it returns false. Rows without any cost little more than reading them.
void for_each_nonfinite(const Tensor& tensor, const std::function<bool(std::array<Index, 4>)>& visit);
// The same of NaN alone: the log-sum-exps of rows without keys are infinities, and may be many.
void for_each_nan(const Tensor& tensor, const std::function<bool(std::array<Index, 4>)>& visit);

// Tells whether there is neither.
bool all_finite(const Tensor& tensor);

}  // namespace attest::properties
