#include "core/digest.hpp"

#include <fmt/format.h>

#include "core/rng.hpp"

namespace attest {

std::uint64_t digest_of(std::string_view bytes) noexcept {
  std::uint64_t hash = 0xCBF29CE484222325u;
  for (const char c : bytes) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
  return mix(hash);
}

std::string hex64(std::uint64_t value) { return fmt::format("{:016x}", value); }

}  // namespace attest
