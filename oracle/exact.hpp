#pragma once
#include "core/contract.hpp"
#include "core/inputs.hpp"

namespace attest::oracle {

// Where inputs are multiples of a power of two and not large (small integers, say), what a contract permits may round nothing
// (docs/bounds.md, section 1).
struct Exactness {
  bool scores = false;     // every computed score is the exact one
  bool arguments = false;  // so is every argument of exp, also where one shift replaces another
};

// Of all rows of a call. Reads q, k and the bias up to the first row that says no.
Exactness exactness(const Contract& contract, const Inputs& inputs);

}  // namespace attest::oracle
