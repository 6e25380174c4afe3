#pragma once
#include "kernels/call.hpp"

namespace attest::kernels {

// Writes out[0, dv) of a row without open keys, by the call's rule: zeros (also where nothing is specified), NaN, or
// the mean of the sample's values, v_j with j < `length` of head kv_head.
template <class Real>
void empty_row(const Call& call, Index sample, Index kv_head, Index length, Real* out) noexcept;

}  // namespace attest::kernels
