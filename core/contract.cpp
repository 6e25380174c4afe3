#include "core/contract.hpp"

namespace attest {

double Contract::lazy_nats() const noexcept {
  if (arithmetic.lazy) return *arithmetic.lazy;
  const bool narrow = has_short_range(policy[Stage::softmax]) || has_short_range(policy[Stage::pv]);
  return narrow ? 0.0 : 8 * 0.6931471805599453;
}

Contract contract_for(const Policy& policy) {
  Contract contract;
  contract.policy = policy;
  return contract;
}

}  // namespace attest
