#pragma once
#include "core/call.hpp"
#include "core/mha/inputs.hpp"

namespace attest {

// The call of attest_mha. Its inputs come in the order of mha::Edit::Tensor.
template <>
const CallShape& call_shape<attest_mha>() noexcept;

}  // namespace attest

namespace attest::mha {

// The struct of a plug-in and what a block sees, one from the other. Memory that is x is absent in the struct.
attest_mha as_plugin(const Call& call, bool self) noexcept;
Call from_plugin(const attest_mha& call) noexcept;

}  // namespace attest::mha
