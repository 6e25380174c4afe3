#pragma once
#include "core/call.hpp"

namespace attest {

// The call of attest_attention. Its inputs come in the order of Edit::Tensor.
template <>
const CallShape& call_shape<attest_attention>() noexcept;

}  // namespace attest
