#pragma once
#include <algorithm>
#include <array>

#include "core/policy.hpp"
#include "properties/masks.hpp"
#include "properties/preconditions.hpp"
#include "properties/trial.hpp"

// The common part of the two laws on rows with one open key.
namespace attest::properties {

// The stages whose formats a value passes on its way to out.
inline constexpr std::array value_stages{Stage::storage, Stage::operand, Stage::pv, Stage::partial, Stage::output};

inline Reason no_single_keys(const Problem& p, const Contract& contract) {
  constexpr Index most_scores = Index{1} << 22;
  if (p.b * p.hq * p.lq * p.dv * p.lk == 0) return "no output elements or no keys";
  if (p.b * p.hq * p.lq * p.lk > most_scores) return "too many scores to count open keys";
  const int bits = std::min({precision(contract.policy[Stage::storage]), precision(contract.policy[Stage::operand]),
                             precision(contract.policy[Stage::pv])});
  if (contract.arithmetic.bits_in_sums() < bits) return "blocks of products do not hold every value";
  return std::nullopt;
}

// Tells whether the oracle of the problem's own scores leaves open what the element is.
bool leaves_open(Trial& trial, Index b, Index h, Index i, Index c);

}  // namespace attest::properties
