#include "ops/grading.hpp"

#include "ops/op.hpp"

namespace attest::ops {

bool is_ordinary(const Grading& grading, const Contract& contract) {
  const Contract silent = grading.silent(policy_of(contract));
  return grading.no_wider(contract, silent, silent);
}

}  // namespace attest::ops
