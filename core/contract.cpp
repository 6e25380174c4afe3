#include "core/contract.hpp"

namespace attest {

double Contract::lazy_nats() const noexcept {
  if (arithmetic.lazy) return *arithmetic.lazy;
  const bool narrow = policy[Stage::softmax] == Format::f16 || policy[Stage::pv] == Format::f16;
  return narrow ? 0.0 : 8 * 0.6931471805599453;
}

Contract contract_for(const Policy& policy) {
  Contract contract;
  contract.policy = policy;
  return contract;
}

}  // namespace attest
