#pragma once
#include <array>
#include <optional>
#include <vector>

#include "core/layer_norm/inputs.hpp"
#include "oracle/layer_norm/quick_loops.hpp"

namespace attest::oracle::layer_norm {

// Consecutive rows of few elements: which of them are inside and determined, and whether their sums are right. The
// fixed cost of a row is the same for one element as for a hundred, so that many rows are looked at together.
struct ShortRows {
  static constexpr Index most = 2048;  // elements, in whole lanes of rows
  ShortRows();
  ~ShortRows();
  ShortRows(const ShortRows&) = delete;
  ShortRows& operator=(const ShortRows&) = delete;

  bool speaks = false;
  std::optional<ShortRule> rule;  // none for rows of one element under LayerNorm
  Index first = 0, rows = 0;      // the rows of this block
  std::vector<double> x, residual, stored, got;
  // A bit for each: whether all of it is inside; surely not wide; one element that may be, and is, no number.
  std::array<std::uint8_t, most / lane_count> held, narrow, open;

  [[nodiscard]] bool has(Index row) const noexcept { return row >= first && row < first + rows; }
  [[nodiscard]] bool holds(Index row) const noexcept { return bit(held, row); }
  [[nodiscard]] bool is_narrow(Index row) const noexcept { return bit(narrow, row); }
  [[nodiscard]] bool is_open(Index row) const noexcept { return bit(open, row); }

 private:
  [[nodiscard]] bool bit(const std::array<std::uint8_t, most / lane_count>& bits, Index row) const noexcept {
    const auto at = static_cast<std::size_t>(row - first);
    return (bits[at / 8] >> at % 8 & 1) != 0;
  }
};

}  // namespace attest::oracle::layer_norm
