#pragma once
#include "core/call.hpp"

namespace attest {

// The call of attest_layer_norm. Its inputs come in the order of layer_norm::Edit::Tensor.
template <>
const CallShape& call_shape<attest_layer_norm>() noexcept;

}  // namespace attest
