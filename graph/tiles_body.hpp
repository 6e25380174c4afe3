#pragma once
#include <algorithm>
#include <cstring>

#include "graph/loops.hpp"
#include "graph/tiles.hpp"

// The loops of tiles.hpp, for two files: one may fuse products with their sums, the other may not (CMakeLists.txt).
namespace attest::graph {
namespace {

// Tiles of `high` rows by `vectors` registers of `width` numbers, whose sums registers hold.
constexpr Index high = 6, vectors = 2;

template <Index width>
[[gnu::always_inline]] inline void multiply_tiles(const Block& b) noexcept {
  using Vector [[gnu::vector_size(width * sizeof(double))]] = double;
  using Loose [[gnu::aligned(alignof(double)), gnu::may_alias]] = Vector;  // as it lies in memory
  constexpr Index wide = width * vectors;
  static_assert(strip_columns % wide == 0);
  for (Index first = 0; first < b.m; first += high) {
    const Index rows = std::min(high, b.m - first);
    const double* row[high];
    for (Index i = 0; i < high; ++i)
      row[i] = b.a + (first + std::min(i, rows - 1)) * b.a_step;  // the last past the end
    for (Index column = 0; column < b.columns; column += wide) {
      const Index columns = std::min(wide, b.columns - column);
      double* const out = b.out + first * b.out_step + column;
      double room[high * wide] = {};  // in place of rows and columns that are not there
      const bool whole = rows == high && columns == wide;
      double* const to = whole ? out : room;
      const Index step = whole ? b.out_step : wide;
      if (!whole && b.onto)
        for (Index i = 0; i < rows; ++i) std::copy_n(out + i * b.out_step, columns, room + i * wide);
      Vector sums[high][vectors] = {};
      if (b.onto)
        for (Index i = 0; i < high; ++i)
          for (Index v = 0; v < vectors; ++v) sums[i][v] = reinterpret_cast<const Loose*>(to + i * step)[v];
      const double* strip = b.strips + column / strip_columns * strip_columns * b.k + column % strip_columns;
      for (Index p = 0; p < b.k; ++p, strip += strip_columns) {
        Vector other[vectors];
        for (Index v = 0; v < vectors; ++v) other[v] = reinterpret_cast<const Loose*>(strip)[v];
        for (Index i = 0; i < high; ++i)
          for (Index v = 0; v < vectors; ++v) sums[i][v] += row[i][p] * other[v];
      }
      for (Index i = 0; i < high; ++i)
        for (Index v = 0; v < vectors; ++v) reinterpret_cast<Loose*>(to + i * step)[v] = sums[i][v];

      if (!whole)
        for (Index i = 0; i < rows; ++i) std::copy_n(room + i * wide, columns, out + i * b.out_step);
    }
  }
}

#ifdef ATTEST_GRAPH_X86
[[gnu::target("arch=x86-64-v4")]] void multiply_wide(const Block& block) noexcept { multiply_tiles<8>(block); }
[[gnu::target("arch=x86-64-v3")]] void multiply_half(const Block& block) noexcept { multiply_tiles<4>(block); }
#endif

void multiply(const Block& block) noexcept {
#ifdef ATTEST_GRAPH_X86
  if (__builtin_cpu_supports("x86-64-v4")) return multiply_wide(block);
  if (__builtin_cpu_supports("x86-64-v3")) return multiply_half(block);
#endif
  multiply_tiles<2>(block);
}

}  // namespace
}  // namespace attest::graph
