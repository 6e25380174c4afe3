#pragma once
#include <vector>

#include "core/tensor.hpp"

namespace attest::oracle {

// Rows of doubles that lie `stride` apart, a whole number of lanes, zeros behind each.
class Matrix {
 public:
  Matrix() = default;
  Matrix(Index rows, Index columns);

  [[nodiscard]] Index rows() const noexcept { return rows_; }
  [[nodiscard]] Index columns() const noexcept { return columns_; }
  [[nodiscard]] Index stride() const noexcept { return stride_; }
  [[nodiscard]] double* row(Index i) noexcept { return data_.data() + i * stride_; }
  [[nodiscard]] const double* row(Index i) const noexcept { return data_.data() + i * stride_; }
  [[nodiscard]] double& operator()(Index i, Index j) noexcept { return row(i)[j]; }
  [[nodiscard]] double operator()(Index i, Index j) const noexcept { return row(i)[j]; }

 private:
  Index rows_ = 0, columns_ = 0, stride_ = 0;
  std::vector<double> data_;
};

// A tensor of one to three axes, the last one being the columns, exactly. An absent one has no rows.
Matrix read_matrix(const attest_tensor& tensor);
Matrix magnitudes(const Matrix& matrix);
// NaN if an element is.
double largest_magnitude(const std::vector<double>& values);
// The largest Euclidean norm of a row; NaN if an element is.
double largest_norm(const Matrix& matrix);

// a times the transposed of `t`, each element summed in the order of the columns: the same bits on every machine.
Matrix product(const Matrix& a, const Matrix& t);

}  // namespace attest::oracle
