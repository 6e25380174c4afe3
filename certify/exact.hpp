#pragma once
#include "core/contract.hpp"
#include "core/inputs.hpp"

namespace attest::certify {

// docs/bounds.md, section 1, "Exact scores": what no kernel that keeps the contract can round, in any row of a call.
struct Exact {
  bool scores = false;
  bool arguments = false;  // arguments of exp
};
Exact what_is_exact(const Contract& contract, const Inputs& inputs);

}  // namespace attest::certify
