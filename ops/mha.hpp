#pragma once
#include "ops/op.hpp"

namespace attest::ops {

const Op& mha_op();

}  // namespace attest::ops
