#pragma once
#include <Eigen/Core>
#include <vector>

#include "core/layer_norm/problem.hpp"

namespace attest::bench {

// The plainest float64 LayerNorm of float rows: Eigen, buffers kept between calls. Compiled for the machine that it runs on.
class PlainLayerNorm {
 public:
  explicit PlainLayerNorm(const layer_norm::Problem& problem);
  double operator()();  // some number of the result

 private:
  Index rows_, hidden_;
  double epsilon_;
  std::vector<float> x_, out_;
  Eigen::ArrayXd gamma_, beta_, d_;
};

}  // namespace attest::bench
