#pragma once
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "oracle/lanes.hpp"
#include "oracle/quick.hpp"

namespace attest::oracle {

// The memory that outlives a problem, so that the next one need not ask for it: one per thread.
struct Quick::Scratch {
  std::array<State, most_rows> rows;
  std::array<ForCount, most_rows + 1> counts;  // those of the rows just loaded, and the last one before them
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  std::unique_ptr<Line[]> lines;
  Index count = 0;
  // Returns at least so many lines. Their old contents are lost.
  Line* room(Index needed) {
    if (count < needed) {
      lines.reset();
      count = 0;
      lines = std::make_unique_for_overwrite<Line[]>(static_cast<std::size_t>(needed + needed / 2));
      count = needed + needed / 2;
    }
    return lines.get();
  }
  std::vector<double> short_rows;  // memory of ShortRows

  static Scratch& of_thread() {
    static thread_local Scratch scratch;
    return scratch;
  }
};

// Lower and upper bounds of ln n, a whole number from 1 on, without a logarithm.
inline double ln_least(double n) {
  return 0.6931471805599453 * static_cast<double>(std::bit_width(static_cast<std::uint64_t>(n)) - 1);
}
inline double ln_most(double n) {
  return 0.6931471805599453 * static_cast<double>(std::bit_width(static_cast<std::uint64_t>(n)));
}

}  // namespace attest::oracle
