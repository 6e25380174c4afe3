#pragma once
#include <attest/attest.hpp>

struct __nv_bfloat16 {
  std::uint16_t bits;
};
inline float __bfloat162float(__nv_bfloat16 x) { return attest_bf16_load(x.bits); }
inline __nv_bfloat16 __float2bfloat16_rn(float x) { return {attest_bf16_store(x)}; }
