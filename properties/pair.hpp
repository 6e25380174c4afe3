#pragma once
#include <array>
#include <vector>

#include "core/contract.hpp"
#include "core/problem.hpp"
#include "core/tensor.hpp"
#include "core/verdict.hpp"
#include "oracle/oracle.hpp"

namespace attest::properties {

// One of two results of one problem, and what its own contract permits.
struct Promised {
  const Tensor &out, &lse;  // lse absent unless both have one
  const Contract& contract;
  oracle::Oracle& oracle;
};

// Holds the results of two subjects against each other, element by element, over the judged rows:
// - fail: the first element at which they differ by more than both may, so that at least one of them is wrong. Its
//   evidence has both sides. Results that are wrong alike pass: the laws of one subject find them.
// - warn: no such element, and the first at which both are right though one gives a number and the other a NaN or an
//   infinity, or 0 where that stands for a row without keys: contracts leave it open, or say different things. The
//   reason says which.
// - else pass, or vacuous as the oracle says.
Verdict held_together(const Problem& problem, const Promised& a, const Promised& b);

// Both sides of one element, as evidence holds them.
std::vector<Side> sides_of(const char* tensor, std::array<Index, 4> index, const Promised& a, const Promised& b);

// The sides of evidence that is of no number: which of the two it is of.
std::vector<Side> of_side(bool a, bool b);

// Returns the failure for a violation of memory by one of two subjects. Its note names the subject.
Verdict broken(Evidence violation, bool is_a);

}  // namespace attest::properties
