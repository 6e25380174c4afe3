#include "graph/loops.hpp"

#include <algorithm>
#include <cstring>

namespace attest::graph {

namespace {

// A tile of the product in registers: rows of a by columns of b.
constexpr Index tile_rows = 6, tile_columns = 8;
using Columns = double __attribute__((vector_size(tile_columns * sizeof(double))));

// Columns of the product whose strip of b, [k, tile_columns], is `strip`: `columns` of them are stored. No product is fused with its sum: the same bits whatever
// the processor.
ATTEST_GRAPH_CLONES void multiply_strip(const double* a, const double* strip, double* out, Index m, Index k, Index n,
                                        Index columns) noexcept {
  for (Index first = 0; first < m; first += tile_rows) {
    const double* rows[tile_rows];
    Columns sums[tile_rows] = {};
    for (Index i = 0; i < tile_rows; ++i) rows[i] = a + std::min(first + i, m - 1) * k;  // the last one past the end
    for (Index p = 0; p < k; ++p) {
      Columns other;
      std::memcpy(&other, strip + p * tile_columns, sizeof other);
      for (Index i = 0; i < tile_rows; ++i) sums[i] += rows[i][p] * other;
    }
    for (Index i = 0; i < std::min(tile_rows, m - first); ++i)
      std::memcpy(out + (first + i) * n, &sums[i], static_cast<std::size_t>(columns) * sizeof(double));
  }
}

}  // namespace

void multiply_matrices(const double* a, const double* b, double* out, Index m, Index k, Index n, bool squares) {
  std::vector<double> strip(static_cast<std::size_t>(k * tile_columns)), squared_rows;
  if (squares) {
    squared_rows = squared(std::span(a, static_cast<std::size_t>(m * k)));
    a = squared_rows.data();
  }
  for (Index column = 0; column < n; column += tile_columns) {
    const Index columns = std::min(tile_columns, n - column);
    for (Index p = 0; p < k; ++p)
      for (Index j = 0; j < columns; ++j) {
        const double value = b[p * n + column + j];
        strip[static_cast<std::size_t>(p * tile_columns + j)] = squares ? value * value : value;
      }
    multiply_strip(a, strip.data(), out + column, m, k, n, columns);
  }
}

double sum_of(const double* x, Index count) noexcept {
  double sum = 0;
  for (Index i = 0; i < count; ++i) sum += x[i];
  return sum;
}

double sum_of_squares(const double* x, Index count) noexcept {
  double sum = 0;
  for (Index i = 0; i < count; ++i) sum += x[i] * x[i];
  return sum;
}

std::vector<double> squared(std::span<const double> x) {
  std::vector<double> squares(x.size());
  std::transform(x.begin(), x.end(), squares.begin(), [](double v) { return v * v; });
  return squares;
}

}  // namespace attest::graph
