#pragma once
#include <cstdint>

#include "core/tensor.hpp"

// Tensors' bits as doubles, exactly, a vector at a time.
namespace attest::oracle {

void decode_f16(const std::uint16_t* from, Index count, double* to);
void decode_bf16(const std::uint16_t* from, Index count, double* to);
void decode_f32(const float* from, Index count, double* to);
// Of any floating-point type, and zeros behind them in whole lanes. Reads past the last element as many as fill its lanes: no
// more than the guards of a Tensor hold.
void decode_padded(attest_dtype type, const void* from, Index count, double* to);

}  // namespace attest::oracle
