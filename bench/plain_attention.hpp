#pragma once
#include <Eigen/Core>
#include <vector>

#include "core/problem.hpp"

namespace attest::bench {

// The plainest float64 attention: Eigen products, std::exp, buffers kept between calls. Compiled for the machine that
// it runs on, as the oracle's inner loops are.
class PlainAttention {
 public:
  explicit PlainAttention(const Problem& problem);
  double operator()();  // some number of the result

 private:
  using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  Index b_, heads_, lq_, lk_, d_, dv_;
  double scale_;
  std::vector<float> q_, k_, v_;
  Matrix q64_, k64_, v64_, s_, y_;
};

}  // namespace attest::bench
