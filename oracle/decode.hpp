#pragma once
#include <cstdint>

#include "core/tensor.hpp"

// Tensors' bits as doubles, exactly, a vector at a time.
namespace attest::oracle {

void decode_f16(const std::uint16_t* from, Index count, double* to);
void decode_bf16(const std::uint16_t* from, Index count, double* to);
void decode_f32(const float* from, Index count, double* to);

}  // namespace attest::oracle
