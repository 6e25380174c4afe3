#pragma once
#define EIGEN_DONT_PARALLELIZE  // a sum has one order, however many threads there are
#include <Eigen/Core>
#include <algorithm>

#include "core/error.hpp"
#include "kernels/arithmetic.hpp"
#include "kernels/mha/steps.hpp"
#include "kernels/promise.hpp"

namespace attest::kernels {

template <class Real>
using Rows = Eigen::Matrix<Real, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

template <class Real>
Real rounded(Format format, Real x) {
  return static_cast<Real>(round_to(format, x));
}

// Rows [first, first + count) of a tensor of two axes, or of sample b of one of three.
template <class Real>
Rows<Real> load_rows(const attest_tensor& tensor, Index b, Index first, Index count) {
  const bool samples = tensor.ndim > 2;
  const Index columns = tensor.shape[tensor.ndim - 1];
  Rows<Real> rows(count, columns);
  for (Index i = 0; i < count; ++i)
    for (Index c = 0; c < columns; ++c)
      rows(i, c) = static_cast<Real>(samples ? attest_load(&tensor, b, first + i, c, 0)
                                             : attest_load(&tensor, first + i, c, 0, 0));
  return rows;
}

// The weights and biases of one projection, or of some rows of it, as Steps finds them.
template <class Real>
struct Projection {
  Rows<Real> weights;
  Eigen::Matrix<Real, 1, Eigen::Dynamic> bias;
};
template <class Real, class Steps>
Projection<Real> load_projection(const mha::Call& call, int projection, Index first, Index count) {
  const attest_tensor* const weights[] = {&call.w_q, &call.w_k, &call.w_v};
  const attest_tensor* const biases[] = {&call.b_q, &call.b_k, &call.b_v};
  Projection<Real> result{Rows<Real>(count, call.e()), Eigen::Matrix<Real, 1, Eigen::Dynamic>::Zero(count)};
  for (Index n = 0; n < count; ++n) {
    const typename Steps::Source from = Steps::source(call, projection, first + n);
    result.weights.row(n) = load_rows<Real>(*weights[from.projection], 0, from.row, 1);
    const attest_tensor& bias = *biases[from.projection];
    if (attest_present(&bias) && Steps::adds_bias(projection))
      result.bias(n) = static_cast<Real>(attest_load(&bias, from.row, 0, 0, 0));
  }
  return result;
}
template <class Real>
Projection<Real> load_out_projection(const mha::Call& call) {
  Projection<Real> result{load_rows<Real>(call.w_out, 0, 0, call.e()),
                          Eigen::Matrix<Real, 1, Eigen::Dynamic>::Zero(call.e())};
  for (Index n = 0; n < call.e() && attest_present(&call.b_out); ++n)
    result.bias(n) = static_cast<Real>(attest_load(&call.b_out, n, 0, 0, 0));
  return result;
}

// Returns x w^T + bias, accumulated in `gemm` and rounded to `storage`. `separate`: rounded before the bias is added,
// and once more.
template <class Real>
Rows<Real> project(const Rows<Real>& x, const Projection<Real>& with, Format gemm, Format storage,
                   bool separate = false) {
  if (separate) {
    using Bias = Eigen::Matrix<Real, 1, Eigen::Dynamic>;
    Rows<Real> result = project<Real>(x, {with.weights, Bias::Zero(with.bias.size())}, gemm, storage);
    for (Index i = 0; i < result.rows(); ++i)
      for (Index n = 0; n < result.cols(); ++n)  // the sum of two numbers of 16 bits is exact in f64
        result(i, n) =
            static_cast<Real>(round_to(storage, static_cast<double>(result(i, n)) + static_cast<double>(with.bias(n))));
    return result;
  }
  const Projection<Real>& by = with;
  constexpr Format native = sizeof(Real) == sizeof(double) ? Format::f64 : Format::f32;
  Rows<Real> result(x.rows(), by.weights.rows());
  if (gemm == native) {
    result.noalias() = x * by.weights.transpose();
    result.rowwise() += by.bias;
  } else {
    for (Index i = 0; i < x.rows(); ++i)
      for (Index n = 0; n < by.weights.rows(); ++n) {
        Real sum = 0;
        for (Index c = 0; c < x.cols(); ++c) sum = rounded(gemm, sum + rounded(gemm, x(i, c) * by.weights(n, c)));
        result(i, n) = rounded(gemm, sum + by.bias(n));
      }
  }
  return result.unaryExpr([storage](Real value) { return rounded(storage, value); });
}

template <class Real>
void store_rows(const mha::Call& call, Index b, Index first, const Rows<Real>& rows) {
  for (Index i = 0; i < rows.rows(); ++i)
    for (Index c = 0; c < rows.cols(); ++c)
      attest_store(&call.out, b, first + i, c, 0, static_cast<double>(rows(i, c)));
}

// A tensor of four axes, if somebody asks for it.
inline void give_stage(const attest_tensor& to, const Tensor& from) {
  if (!attest_present(&to)) return;
  const auto& n = from.shape();
  for (Index b = 0; b < n[0]; ++b)
    for (Index h = 0; h < n[1]; ++h)
      for (Index i = 0; i < n[2]; ++i)
        for (Index c = 0; c < n[3]; ++c) attest_store(&to, b, h, i, c, from.at(b, h, i, c));
}

inline void check_storage(const mha::Call& call, const mha::Contract& contract) {
  const auto type = dtype_of(call.x.dtype);
  if (!type || *type != dtype_of(contract.attention.policy[Stage::storage]))
    throw usage_error("mha: x is not of the policy's storage format: the policy must say storage=, or x be cast");
}

// Tells whether double is needed: some stage is f64, or a product of f32 numbers is summed in less.
inline bool block_computes_in_double(const mha::Contract& contract) {
  if (contract.gemm == Format::f64) return true;
  for (std::size_t n = 0; n < stage_count; ++n)
    if (contract.attention.policy[static_cast<Stage>(n)] == Format::f64) return true;
  return false;
}

}  // namespace attest::kernels
