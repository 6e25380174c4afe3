#pragma once
#include <cstdint>

// Eight double lanes. Sums run in lanes and are folded in one fixed order, so that they have the same bits whatever the
// instruction set: GCC and clang split the vectors into what the machine has.
namespace attest::oracle {

using Lanes = double __attribute__((vector_size(64)));
using LanesUnaligned = double __attribute__((vector_size(64), aligned(8), may_alias));
using LaneBits = std::int64_t __attribute__((vector_size(64)));
using FloatLanes = float __attribute__((vector_size(32)));
using FloatLanesUnaligned = float __attribute__((vector_size(32), aligned(4), may_alias));
inline constexpr int lane_count = 8;

// The least multiple of lane_count from n on: how long an array of whole lanes is.
constexpr std::int64_t padded(std::int64_t n) noexcept { return (n + lane_count - 1) / lane_count * lane_count; }

#define ATTEST_LANE_FN [[gnu::always_inline]] inline

ATTEST_LANE_FN Lanes fill(double x) { return Lanes{x, x, x, x, x, x, x, x}; }
ATTEST_LANE_FN Lanes load(const double* p) { return *reinterpret_cast<const LanesUnaligned*>(p); }
ATTEST_LANE_FN void store(double* p, Lanes x) { *reinterpret_cast<LanesUnaligned*>(p) = x; }
ATTEST_LANE_FN FloatLanes load(const float* p) { return *reinterpret_cast<const FloatLanesUnaligned*>(p); }
ATTEST_LANE_FN void store(float* p, FloatLanes x) { *reinterpret_cast<FloatLanesUnaligned*>(p) = x; }
ATTEST_LANE_FN Lanes widen(FloatLanes x) { return __builtin_convertvector(x, Lanes); }
ATTEST_LANE_FN FloatLanes narrow(Lanes x) { return __builtin_convertvector(x, FloatLanes); }
// a where the bits of `c` are set, else b. Comparisons of lanes give such bits.
ATTEST_LANE_FN Lanes select(LaneBits c, Lanes a, Lanes b) { return (Lanes)((c & (LaneBits)a) | (~c & (LaneBits)b)); }
ATTEST_LANE_FN Lanes zero_unless(LaneBits c, Lanes a) { return (Lanes)(c & (LaneBits)a); }
ATTEST_LANE_FN Lanes min(Lanes a, Lanes b) { return select(a < b, a, b); }
ATTEST_LANE_FN Lanes max(Lanes a, Lanes b) { return select(a > b, a, b); }
ATTEST_LANE_FN Lanes abs(Lanes a) { return (Lanes)((LaneBits)a & 0x7fffffffffffffff); }
ATTEST_LANE_FN double sum(Lanes x) { return ((x[0] + x[4]) + (x[2] + x[6])) + ((x[1] + x[5]) + (x[3] + x[7])); }
ATTEST_LANE_FN double largest(Lanes x) {
  double m = x[0];
  for (int i = 1; i < lane_count; ++i) m = x[i] > m ? x[i] : m;
  return m;
}

}  // namespace attest::oracle
