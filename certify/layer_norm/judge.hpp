#pragma once
#include "certify/layer_norm/interval.hpp"
#include "certify/rounding.hpp"

namespace attest::certify::layer_norm {

inline Rounding rounding_of(const Contract& contract, Format tensor) {
  return {contract.policy[attest::layer_norm::Stage::output], tensor, contract.arithmetic.flushes()};
}

// Tells whether no implementation can have given `value`, a number of the tensor's type.
Judgement judge(const Interval& interval, const Rounding& round, double value);

}  // namespace attest::certify::layer_norm
