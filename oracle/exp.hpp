#pragma once
#include "oracle/lanes.hpp"

// exp and tanh in lanes, without libm and without fused multiply-adds: the same bits on every machine. Their errors are
// part of the reference's own error, for which the bounds leave room.
namespace attest::oracle {

// Returns exp(x) for x <= 709, at most 1 ulp off, and 0 where it would be subnormal. Evaluates a Taylor polynomial of
// degree 13 on [-ln2/2, ln2/2] after the subtraction of a multiple of ln 2 held in two parts.
template <class L>
ATTEST_LANE_FN L exp(L x) {
  const double smallest = -708.396;  // less than eps0 below the smallest normal number's logarithm
  const auto under = x < L(smallest);
  x = max(x, L(smallest));
  const double shifter = 0x1.8p52;
  const L shifted = x * 0x1.71547652b82fep0 + shifter;
  const L multiple = shifted - shifter;
  const L r = (x - multiple * 0x1.62e42fefa38p-1) - multiple * 0x1.ef35793c7673p-45;
  const L r2 = r * r, r4 = r2 * r2;
  const L a = 1.0 / 2 + r * (1.0 / 6), b = 1.0 / 24 + r * (1.0 / 120), c = 1.0 / 720 + r * (1.0 / 5040);
  const L d = 1.0 / 40320 + r * (1.0 / 362880), e = 1.0 / 3628800 + r * (1.0 / 39916800);
  const L f = 1.0 / 479001600 + r * (1.0 / 6227020800.0);
  const L q = (a + r2 * b) + r4 * (c + r2 * d) + r4 * r4 * (e + r2 * f);
  const L scale = bits_as<L>((bits_as<typename L::Bits>(shifted) << 52) + 0x3ff0000000000000);
  return zero_unless(~under, (1.0 + (r + r2 * q)) * scale);
}

// tanh(x), at most 4 ulp off: an odd Taylor-like quotient below 0.5, (1 - e^-2x)/(1 + e^-2x) above.
template <class L>
ATTEST_LANE_FN L tanh(const L& x) {
  const L ax = abs(x);
  const L t = exp(-2.0 * min(ax, fill<L>(40.0)));
  const L large = (1.0 - t) / (1.0 + t);
  // tanh x = x / (1 + x^2/(3 + x^2/(5 + ...))): Lambert's continued fraction, cut where its tail is below 2^-60.
  const L x2 = min(ax, fill<L>(0.5)) * min(ax, fill<L>(0.5));
  L tail = fill<L>(15.0);
  for (double odd = 13; odd >= 1; odd -= 2) tail = odd + x2 / tail;
  const L small = ax / tail;
  const L magnitude = select(ax < L(0.5), small, large);
  using Bits = typename L::Bits;
  const Bits sign = bits_as<Bits>(x) & static_cast<std::int64_t>(0x8000000000000000u);
  return bits_as<L>(bits_as<Bits>(magnitude) | sign);
}

}  // namespace attest::oracle
