#pragma once
#include <algorithm>
#include <cstdint>
#include <limits>

#include "core/index.hpp"

namespace attest {

struct DimRange {
  Index min = 1;
  Index max = std::numeric_limits<Index>::max();
  Index multiple = 1;

  [[nodiscard]] constexpr bool offers(Index n) const noexcept { return n >= min && n <= max && n % step() == 0; }
  [[nodiscard]] constexpr Index step() const noexcept { return std::max<Index>(multiple, 1); }
  // The next offered number that is no smaller than n, the largest offered where there is none.
  [[nodiscard]] constexpr Index nearest(Index n) const noexcept {
    n = std::clamp(n, min, max);
    const Index up = (n + step() - 1) / step() * step();
    return up <= max ? up : n / step() * step();
  }
};

// The strides that tensors may have in memory.
enum class Strides : std::uint8_t { any, last_dim_contiguous, contiguous };

}  // namespace attest
