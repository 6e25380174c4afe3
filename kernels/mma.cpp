#include "kernels/mma.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

namespace attest::kernels {
namespace {

// Returns the exponent of a finite x in a format whose least exponent is `least`.
int exponent(double x, int least) {
  return std::max(static_cast<int>(std::bit_cast<std::uint64_t>(x) >> 52 & 0x7ff) - 1023, least);
}
// Returns 2^n for the exponents of sums and of their bits.
double power_of_two(int n) {
  return std::bit_cast<double>(static_cast<std::uint64_t>(1023 + std::clamp(n, -1022, 1023)) << 52);
}

}  // namespace

double MmaUnit::block(double c, const double* a, Index stride_a, const double* b, Index stride_b,
                      Index products) const noexcept {
  // A term of 0 counts as one of the smallest normal result: more than of any unit that has been measured.
  int top = exponent(c, min_exponent(format_of(mma_.out)));
  double plain = c;
  for (Index t = 0; t < products; ++t) {
    const double x = a[t * stride_a], y = b[t * stride_b];
    plain += x * y;
    if (x != 0 && y != 0) top = std::max(top, exponent(x, least_factor_) + exponent(y, least_factor_));
  }
  if (!std::isfinite(plain)) return plain;
  // Whole numbers of at most 35 + 2 bits each, and 1,024 of them: their sum is exact.
  const double to_units = power_of_two(mma_.frac - top);
  double sum = std::trunc(c * to_units);
  for (Index t = 0; t < products; ++t) sum += std::trunc(a[t * stride_a] * b[t * stride_b] * to_units);
  return rounded(sum * power_of_two(top - mma_.frac));
}

double MmaUnit::chain(double c, const double* a, Index stride_a, const double* b, Index stride_b, Index products,
                      Index size) const noexcept {
  for (Index at = 0; at < products; at += size)
    c = block(c, a + at * stride_a, stride_a, b + at * stride_b, stride_b, std::min(size, products - at));
  return c;
}

// Returns the rounded sum. An overflow is infinite, though it is cut.
double MmaUnit::rounded(double sum) const noexcept {
  if (sum == 0) return 0;
  if (mma_.out == MmaResult::f16) return round_to(accumulator_, round_to(Format::f16, sum));
  const int unit = exponent(sum, min_exponent(Format::f32)) - fraction_bits(mma_.out);
  const double cut = std::trunc(sum * power_of_two(-unit)) * power_of_two(unit);
  return round_to(accumulator_, round_to(Format::f32, cut));
}

}  // namespace attest::kernels
