#pragma once
#include "core/contract.hpp"

namespace attest::ops::of_attention {

// The policy of explicit attention as a framework runs it on tensors of `type`: each operation accumulates in f32 and
// rounds its result to the type, scores and weights among them.
attest::Policy framework_policy(Format type);

// Grading::no_wider().
bool no_wider(const attest::Contract& contract, const attest::Contract& least, const attest::Contract& other);

}  // namespace attest::ops::of_attention
