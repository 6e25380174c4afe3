#pragma once
#include "ops/probe.hpp"

namespace attest::ops::of_layer_norm {

const Probes& probes();

}  // namespace attest::ops::of_layer_norm
