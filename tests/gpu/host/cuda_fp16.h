#pragma once
#include <attest/attest.hpp>

struct __half {
  std::uint16_t bits;
};
inline float __half2float(__half x) { return attest_f16_load(x.bits); }
inline __half __float2half_rn(float x) { return {attest_f16_store(x)}; }
