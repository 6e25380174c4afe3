#pragma once
#include <cstdint>
#include <span>

namespace attest {

// Encode many numbers with the same bits as encode_f16() and encode_bf16() of core/format.hpp, but without branches, so
// that wide registers take several at once. `to` has room for as many.
void encode_f16(std::span<const double> from, std::uint16_t* to) noexcept;
void encode_bf16(std::span<const double> from, std::uint16_t* to) noexcept;
// Rounds to float.
void encode_f32(std::span<const double> from, float* to) noexcept;

}  // namespace attest
