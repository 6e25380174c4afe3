#pragma once
#include "core/contract.hpp"
#include "core/inputs.hpp"

namespace attest::oracle {

// The steps in which a contract may round nothing, because inputs are multiples of a power of two and not large, such
// as small integers (docs/bounds.md, section 1).
struct Exactness {
  bool scores = false;     // every computed score is the exact one
  bool arguments = false;  // so is every argument of exp, also where one shift replaces another
};

// Returns the exactness that holds for all rows of a call. Reads q, k and the bias up to the first row that rules it
// out.
Exactness exactness(const Contract& contract, const Inputs& inputs);

}  // namespace attest::oracle
