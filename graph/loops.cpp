#include "graph/loops.hpp"

#include <algorithm>

namespace attest::graph {

void multiply_matrices(const double* a, const double* b, double* out, Index m, Index k, Index n) noexcept {
  std::fill_n(out, m * n, 0.0);
  for (Index i = 0; i < m; ++i) {
    double* const row = out + i * n;
    for (Index p = 0; p < k; ++p) {
      const double factor = a[i * k + p];
      const double* const other = b + p * n;
      for (Index j = 0; j < n; ++j) row[j] += factor * other[j];
    }
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
