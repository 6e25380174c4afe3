#pragma once
#include "ops/op.hpp"

namespace attest::ops {

const Op& layer_norm_op();

}  // namespace attest::ops
