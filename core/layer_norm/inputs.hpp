#pragma once
#include <vector>

#include "core/layer_norm/problem.hpp"

namespace attest::layer_norm {

// The tensors and options of one call, derived from a problem. Absent tensors are not present().
struct Inputs {
  Tensor x, residual;  // [rows, hidden]
  Tensor gamma, beta;  // [hidden]
  double epsilon = 0;
  Norm norm = Norm::layer;
  Index threads = 0;

  // The call a subject gets. Points into *this, `out` and `sum_out` (which may be absent).
  [[nodiscard]] attest_layer_norm call(const Tensor& out, const Tensor& sum_out) const noexcept;
  [[nodiscard]] Inputs clone() const;
};

// Values from (seed, tensor, origin + index), without libm: the same bits everywhere. Throws what validate() throws.
Inputs materialise(const Problem& problem);

// Poisoned output tensors in the problem's layout; `fence`: what guards and gaps hold (core/tensor.hpp).
Tensor make_out(const Problem& problem, std::uint64_t fence = Tensor::plain_fence);
Tensor make_sum_out(const Problem& problem,
                    std::uint64_t fence = Tensor::plain_fence);  // absent if the problem asks for none

// The rows that are judged, ascending: all, or `judged` that the problem's seed draws.
std::vector<Index> judged_rows(const Problem& problem);

}  // namespace attest::layer_norm
