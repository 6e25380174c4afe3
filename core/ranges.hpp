#pragma once
#include <cstdint>
#include <limits>

#include "core/index.hpp"

namespace attest {

struct DimRange {
  Index min = 1;
  Index max = std::numeric_limits<Index>::max();
  Index multiple = 1;

  [[nodiscard]] constexpr bool offers(Index n) const noexcept {
    return n >= min && n <= max && (multiple <= 1 || n % multiple == 0);
  }
};

// How tensors may lie in memory.
enum class Strides : std::uint8_t { any, last_dim_contiguous, contiguous };

}  // namespace attest
