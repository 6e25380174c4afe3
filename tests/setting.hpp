#pragma once
#include <cstdint>
#include <cstdlib>

namespace attest {

// A number from the environment: how much a test does, and of which seed.
inline std::uint64_t setting(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

}  // namespace attest
