#include "graph/loops.hpp"

#include <algorithm>
#include <cstring>

namespace attest::graph {

namespace {

// A tile of the product in registers: rows of a by columns of b.
constexpr Index tile_rows = 6;
using Columns = double __attribute__((vector_size(strip_columns * sizeof(double))));
// Columns and rows of b that are held at a time, which caches keep while all rows of a pass.
constexpr Index block_columns = 8 * strip_columns, block_rows = 256;

// Rows of a, `a_step` apart, times `columns` columns of b in strips of [k, strip_columns], added to what out holds
// where there were rows of b before. No product is fused with its sum: the same bits whatever the processor.
ATTEST_GRAPH_CLONES void multiply_block(const double* a, Index a_step, const double* strips, double* out, Index m,
                                        Index k, Index n, Index columns, bool onto) noexcept {
  for (Index first = 0; first < m; first += tile_rows) {
    const double* rows[tile_rows];
    for (Index i = 0; i < tile_rows; ++i) rows[i] = a + std::min(first + i, m - 1) * a_step;  // the last past the end
    const Index height = std::min(tile_rows, m - first);
    for (Index column = 0; column < columns; column += strip_columns) {
      const double* const strip = strips + column * k;
      double* const to = out + first * n + column;
      const auto width = static_cast<std::size_t>(std::min(strip_columns, columns - column)) * sizeof(double);
      Columns sums[tile_rows] = {};
      if (onto)
        for (Index i = 0; i < height; ++i) std::memcpy(&sums[i], to + i * n, width);
      for (Index p = 0; p < k; ++p) {
        Columns other;
        std::memcpy(&other, strip + p * strip_columns, sizeof other);
        for (Index i = 0; i < tile_rows; ++i) sums[i] += rows[i][p] * other;
      }
      for (Index i = 0; i < height; ++i) std::memcpy(to + i * n, &sums[i], width);
    }
  }
}

}  // namespace

void multiply_matrices(const double* a, const Strip& b, double* out, Index m, Index k, Index n, double* squares,
                       Index square_rows) {
  std::vector<double> strips(
      static_cast<std::size_t>(std::min(k, block_rows) * std::min(n + strip_columns, block_columns)));
  const std::vector<double> squared_rows =
      squares == nullptr ? std::vector<double>() : squared({a, static_cast<std::size_t>(square_rows * k)});
  if (k == 0) {
    std::fill_n(out, m * n, 0.0);
    if (squares != nullptr) std::fill_n(squares, square_rows * n, 0.0);
  }
  for (Index column = 0; column < n; column += block_columns)
    for (Index row = 0; row < k; row += block_rows) {
      const Index columns = std::min(block_columns, n - column), rows = std::min(block_rows, k - row);
      for (Index strip = 0; strip < columns; strip += strip_columns)
        b(row, rows, column + strip, std::min(strip_columns, columns - strip), strips.data() + strip * rows);
      multiply_block(a + row, k, strips.data(), out + column, m, rows, n, columns, row > 0);
      if (squares == nullptr) continue;
      for (double& v : strips) v *= v;
      multiply_block(squared_rows.data() + row, k, strips.data(), squares + column, square_rows, rows, n, columns,
                     row > 0);
    }
}

void multiply_matrices(const double* a, const double* b, double* out, Index m, Index k, Index n, double* squares) {
  const Strip strip = [b, n](Index row, Index rows, Index column, Index columns, double* to) {
    for (Index p = 0; p < rows; ++p) std::copy_n(b + (row + p) * n + column, columns, to + p * strip_columns);
  };
  multiply_matrices(a, strip, out, m, k, n, squares, m);
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
