#include "kernels/layer_norm/promise.hpp"

namespace attest::kernels::layer_norm {

Contract common_promise(const Policy& policy) {
  Contract contract = attest::layer_norm::contract_for(policy);
  contract.arithmetic.rsqrt_ulp = 0.5;
  contract.nan = NanRule::propagates;
  contract.batch_invariant = BatchInvariance::bitwise;
  contract.deterministic = Deterministic::threads;
  return contract;
}

}  // namespace attest::kernels::layer_norm
