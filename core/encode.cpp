#include "core/encode.hpp"

#include <bit>

#include "core/format.hpp"

namespace attest {
namespace {

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define ATTEST_ENCODE_CLONES __attribute__((target_clones("default", "avx2", "arch=x86-64-v4")))
#else
#define ATTEST_ENCODE_CLONES
#endif

// How a format of 16 bits lies in a double. Rounding is to nearest, ties to even, once.
template <Format format>
[[gnu::always_inline]] inline std::uint16_t encoded(double x) noexcept {
  constexpr int drop = 53 - precision(format);  // bits of the significand that are cut off
  constexpr std::uint64_t bias = static_cast<std::uint64_t>(1023 + min_exponent(format) - 1) << (precision(format) - 1);
  // What added to a subnormal leaves as its last bits how many of the smallest ones it is.
  constexpr double shifter =
      std::bit_cast<double>(static_cast<std::uint64_t>(1023 + 52 + min_exponent(format) - precision(format) + 1) << 52);
  constexpr std::uint64_t infinite = (std::uint64_t{0x7FFF} >> (precision(format) - 1)) << (precision(format) - 1),
                          quiet = infinite | std::uint64_t{1} << (precision(format) - 2);
  const std::uint64_t bits = std::bit_cast<std::uint64_t>(x), sign = bits >> 48 & 0x8000,
                      magnitude = bits & 0x7FFFFFFFFFFFFFFF;
  const double size = std::bit_cast<double>(magnitude);
  const std::uint64_t rounded =
      ((magnitude + ((std::uint64_t{1} << (drop - 1)) - 1) + (magnitude >> drop & 1)) >> drop) - bias;
  const std::uint64_t subnormal = std::bit_cast<std::uint64_t>(size + shifter) - std::bit_cast<std::uint64_t>(shifter);
  std::uint64_t number = size < smallest_normal(format) ? subnormal : rounded;
  number = size >= overflow_threshold(format) ? infinite : number;
  const std::uint64_t kept =
      format == Format::bf16 ? (magnitude >> drop) & (2 * (quiet - infinite) - 1) : 0;  // of a NaN
  number = size != size ? quiet | kept : number;
  return static_cast<std::uint16_t>(sign | number);
}

}  // namespace

ATTEST_ENCODE_CLONES void encode_f16(std::span<const double> from, std::uint16_t* to) noexcept {
  for (std::size_t n = 0; n < from.size(); ++n) to[n] = encoded<Format::f16>(from[n]);
}

ATTEST_ENCODE_CLONES void encode_bf16(std::span<const double> from, std::uint16_t* to) noexcept {
  for (std::size_t n = 0; n < from.size(); ++n) to[n] = encoded<Format::bf16>(from[n]);
}

ATTEST_ENCODE_CLONES void encode_f32(std::span<const double> from, float* to) noexcept {
  for (std::size_t n = 0; n < from.size(); ++n) to[n] = static_cast<float>(from[n]);
}

}  // namespace attest
