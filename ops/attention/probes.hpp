#pragma once
#include "ops/probe.hpp"

namespace attest::ops::of_attention {

const Probes& probes();

}  // namespace attest::ops::of_attention
