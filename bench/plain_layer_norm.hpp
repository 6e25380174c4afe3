#pragma once
#include <Eigen/Core>
#include <vector>

#include "core/layer_norm/problem.hpp"

namespace attest::bench {

// The plainest float64 computation of a problem's result, in Eigen: of doubles, or of floats where x has fewer bits,
// with its residual, sum_out, mean, gamma and beta if it has them. Buffers are kept between calls. Compiled for the
// machine that it runs on.
class PlainLayerNorm {
 public:
  explicit PlainLayerNorm(const layer_norm::Problem& problem);
  double operator()();  // some number of the result

 private:
  template <class T>
  struct Tensors {
    std::vector<T> x, residual, sum, out;
  };
  template <class T>
  void fill(Tensors<T>& tensors) const;
  template <class T>
  double run(Tensors<T>& tensors);

  layer_norm::Problem problem_;
  Tensors<float> floats_;
  Tensors<double> doubles_;
  Eigen::ArrayXd gamma_, beta_, d_;
};

}  // namespace attest::bench
