#include "graph/loops.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

namespace attest::graph {

namespace {

// Columns and rows of b that are held at a time, which caches keep while all rows of a pass.
constexpr Index block_columns = 8 * strip_columns, block_rows = 256;

// Numbers of 24 bits and of an exponent that lies far from both ends of float64, as all of float32 are: products of two
// of them are exact.
constexpr std::uint64_t sign = std::uint64_t{1} << 63, past_24_bits = (std::uint64_t{1} << 29) - 1;
constexpr std::uint64_t least_short = std::bit_cast<std::uint64_t>(0x1p-400),
                        most_short = std::bit_cast<std::uint64_t>(0x1p400);

ATTEST_GRAPH_CLONES bool are_short(const double* x, Index count) noexcept {
  std::uint64_t others = 0;
  for (Index i = 0; i < count; ++i) {
    const auto bits = std::bit_cast<std::uint64_t>(x[i]) & ~sign;
    const bool far = bits < least_short || bits > most_short;
    others |= (bits & past_24_bits) | (far && bits != 0 ? 1 : 0);
  }
  return others == 0;
}

// The squares of numbers, cut to 24 bits.
ATTEST_GRAPH_CLONES void square(const double* x, Index count, double* to) noexcept {
  for (Index i = 0; i < count; ++i)
    to[i] = std::bit_cast<double>(std::bit_cast<std::uint64_t>(x[i] * x[i]) & ~past_24_bits);
}

// Rows [m, k] that are multiplied by one matrix, in runs of those that are short or are not.
class Left {
 public:
  Left(const double* a, Index m, Index k, double* out) : a_(a), k_(k), out_(out) {
    for (Index row = 0; row < m; ++row) {
      const bool is_short = are_short(a + row * k, k);
      if (runs_.empty() || runs_.back().is_short != is_short) runs_.push_back({row, 0, is_short});
      ++runs_.back().count;
    }
  }

  // Rows [row, row + rows) and columns [column, column + columns) of that matrix, in strips.
  void multiply(const double* strips, bool are_short, Index row, Index rows, Index column, Index columns,
                Index n) const noexcept {
    for (const Run& run : runs_) {
      const Block block{
          a_ + run.first * k_ + row, k_, strips, out_ + run.first * n + column, n, run.count, rows, columns, row > 0};
      if (are_short && run.is_short)
        multiply_exact(block);
      else
        multiply_apart(block);
    }
  }

 private:
  struct Run {
    Index first, count;
    bool is_short;
  };
  const double* a_;
  Index k_;
  double* out_;
  std::vector<Run> runs_;
};

}  // namespace

void multiply_matrices(const double* a, const Strip& b, double* out, Index m, Index k, Index n, double* squares,
                       Index square_rows) {
  if (k == 0) {
    std::fill_n(out, m * n, 0.0);
    if (squares != nullptr) std::fill_n(squares, square_rows * n, 0.0);
    return;
  }
  std::vector<double> strips(
      static_cast<std::size_t>(std::min(k, block_rows) * std::min(n + strip_columns, block_columns)));
  std::vector<double> squared_rows(squares == nullptr ? 0 : static_cast<std::size_t>(square_rows * k));
  square(a, std::ssize(squared_rows), squared_rows.data());
  const Left rows_of_a(a, m, k, out), of_squares(squared_rows.data(), squares == nullptr ? 0 : square_rows, k, squares);
  for (Index column = 0; column < n; column += block_columns)
    for (Index row = 0; row < k; row += block_rows) {
      const Index columns = std::min(block_columns, n - column), rows = std::min(block_rows, k - row);
      for (Index strip = 0; strip < columns; strip += strip_columns)
        b(row, rows, column + strip, std::min(strip_columns, columns - strip), strips.data() + strip * rows);
      const Index held = (columns + strip_columns - 1) / strip_columns * strip_columns * rows;
      const auto multiply = [&](const Left& by) {
        by.multiply(strips.data(), are_short(strips.data(), held), row, rows, column, columns, n);
      };
      multiply(rows_of_a);
      if (squares == nullptr) continue;
      square(strips.data(), held, strips.data());
      multiply(of_squares);
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

}  // namespace attest::graph
