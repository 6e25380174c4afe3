#pragma once
#include "ops/probe.hpp"

namespace attest::ops::of_mha {

const Probes& probes();

}  // namespace attest::ops::of_mha
