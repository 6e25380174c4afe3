#include "core/encode.hpp"

#include "core/format.hpp"

namespace attest {

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define ATTEST_ENCODE_CLONES __attribute__((target_clones("default", "avx2", "arch=x86-64-v4")))
#else
#define ATTEST_ENCODE_CLONES
#endif

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
