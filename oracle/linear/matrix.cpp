#include "oracle/linear/matrix.hpp"

#include <algorithm>
#include <cmath>

#include "oracle/call.hpp"
#include "oracle/lanes.hpp"
#include "oracle/products.hpp"

namespace attest::oracle {

Matrix::Matrix(Index rows, Index columns)
    : rows_(rows), columns_(columns), stride_(padded(columns)), data_(static_cast<std::size_t>(rows * stride_), 0) {}

Matrix read_matrix(const attest_tensor& tensor) {
  if (!attest_present(&tensor)) return {};
  const int axes = tensor.ndim;
  const Index columns = tensor.shape[axes - 1], inner = axes > 1 ? tensor.shape[axes - 2] : 1;
  const Index outer = axes > 2 ? tensor.shape[0] : 1;
  Matrix matrix(outer * inner, columns);
  for (Index b = 0; b < outer; ++b)
    for (Index i = 0; i < inner; ++i) {
      const void* first = axes > 2 ? attest_at(&tensor, b, i, 0, 0) : attest_at(&tensor, axes > 1 ? i : 0, 0, 0, 0);
      read_strided(tensor, first, tensor.strides[axes - 1], columns, matrix.row(b * inner + i));
    }
  return matrix;
}

Matrix magnitudes(const Matrix& matrix) {
  Matrix result = matrix;
  for (Index i = 0; i < matrix.rows(); ++i)
    for (Index j = 0; j < matrix.columns(); ++j) result(i, j) = std::fabs(matrix(i, j));
  return result;
}

double largest_magnitude(const std::vector<double>& values) {
  double top = 0;
  for (const double x : values)
    if (!(std::fabs(x) <= top)) top = std::fabs(x);
  return top;
}

double largest_norm(const Matrix& matrix) {
  if (matrix.rows() == 0) return 0;
  return std::sqrt(products::largest_square_sum(matrix.row(0), matrix.stride(), matrix.rows(), matrix.stride()));
}

Matrix product(const Matrix& a, const Matrix& t) {
  constexpr Index wide = 32, stride = wide + lane_count;  // columns at once: their factors stay near the processor
  Matrix result(a.rows(), t.rows());
  std::vector<double> block(static_cast<std::size_t>(a.columns() * stride));
  for (Index first = 0; first < t.rows(); first += wide) {
    const Index columns = std::min(wide, t.rows() - first), whole = padded(columns);
    for (Index c = 0; c < a.columns(); ++c) {
      double* to = block.data() + c * stride;
      for (Index n = 0; n < columns; ++n) to[n] = t(first + n, c);
      std::fill(to + columns, to + whole, 0.0);
    }
    for (Index i = 0; i < a.rows(); i += 4)
      products::scores(a.row(i), a.stride(), std::min<Index>(4, a.rows() - i), block.data(), stride, a.columns(), whole,
                       result.row(i) + first, result.stride());
  }
  return result;
}

}  // namespace attest::oracle
