#pragma once
#include <optional>

#include "properties/layer_norm/law.hpp"

namespace attest::properties::layer_norm {

// One of two results of one problem, and what its own contract permits.
struct Promised {
  const Tensor &out, &sum_out;  // sum_out absent if the problem asks for none
  const Contract& contract;
  oracle::layer_norm::LayerNormOracle& oracle;
};

// Judges as properties/both.hpp says: fail with the first element at which two results differ by more than both may, so
// that at least one of them is wrong; warn where both are right though only one gives a number; else pass, or vacuous.
Verdict held_together(const Problem& problem, const Promised& a, const Promised& b);

// The first element of out, then of sum_out, whose bits differ.
std::optional<Evidence> first_other_bits(const Promised& a, const Promised& b, Counts& counts);

}  // namespace attest::properties::layer_norm
