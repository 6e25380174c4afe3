#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace attest {

// FNV-1a, 64 bits, finalised by mix(): detects damage, no attacker.
std::uint64_t digest_of(std::string_view bytes) noexcept;
// 16 hexadecimal digits.
std::string hex64(std::uint64_t value);

}  // namespace attest
