#pragma once
#include "generators/domain.hpp"
#include "ops/op.hpp"

namespace attest::ops {

const Op& attention_op();

// The domain within one that attention_op() made. Throws Error(internal) for another's.
const attest::Domain& attention_domain(const Domain& domain);

}  // namespace attest::ops
