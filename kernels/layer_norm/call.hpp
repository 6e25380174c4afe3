#pragma once
#include <span>
#include <vector>

#include "attest/plugin.h"
#include "core/layer_norm/contract.hpp"
#include "core/layer_norm/problem.hpp"

namespace attest::kernels::layer_norm {

using attest::layer_norm::Contract;
using attest::layer_norm::Policy;
using attest::layer_norm::Stage;

// A call, and how it is to be computed.
struct Call {
  const attest_layer_norm& tensors;
  const Contract& contract;
  Index rows, hidden;
  bool rms, has_residual, has_gamma, has_beta, has_sum;

  // Throws Error(usage) if x, residual, out or sum_out are not of the policy's storage format.
  Call(const attest_layer_norm& call, const Contract& contract);
  [[nodiscard]] Format operator[](Stage stage) const noexcept { return contract.policy[stage]; }

  // Loads the numbers that are normalised: x, or x + residual in the format that the sum stage and sum_of choose.
  // Writes the stored sums to sum_out where that is asked for.
  void load_row(Index row, std::span<double> x) const;
  void store_row(Index row, std::span<const double> y) const;
  // gamma with its offset, and beta, in the affine format; 1 and 0 where absent.
  [[nodiscard]] std::vector<double> gamma() const;
  [[nodiscard]] std::vector<double> beta() const;
};

}  // namespace attest::kernels::layer_norm
