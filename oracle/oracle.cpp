#include "oracle/oracle.hpp"

#include "oracle/attention.hpp"

namespace attest::oracle {

std::unique_ptr<Oracle> make_oracle(const Contract& contract, const Problem& problem, const Inputs& inputs) {
  return std::make_unique<AttentionOracle>(contract, problem, inputs);
}

}  // namespace attest::oracle
