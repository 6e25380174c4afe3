#pragma once
#include <optional>

#include "core/mha/contract.hpp"
#include "core/tensor.hpp"
#include "core/verdict.hpp"
#include "oracle/mha/mha.hpp"

namespace attest::properties::block {

// One of two results of one problem, and what its own contract permits: by the way that its judgement is of.
struct Promised {
  const Tensor& out;
  const mha::Contract& contract;
  oracle::MhaOracle& oracle;
};

// Judges as properties/both.hpp says.
Verdict held_together(const Promised& a, const Promised& b);
// The first element of out whose bits differ. Both have been held_together() before.
std::optional<Evidence> first_other_bits(const Promised& a, const Promised& b, Counts& counts);

}  // namespace attest::properties::block
