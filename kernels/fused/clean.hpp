#pragma once
#include "attest/plugin.h"
#include "core/contract.hpp"

namespace attest::kernels {

// fused_attention<CleanSteps> (fused.hpp), compiled once and for speed.
void clean_attention(const attest_attention& attention, const Contract& contract);

}  // namespace attest::kernels
