#pragma once
#include "core/policy.hpp"
#include "core/problem.hpp"

namespace attest::ops::of_attention {

// out[0,0,0,0] of a plain kernel of `policy`, in order, on a problem without masks: weights normalised before the second product
// or behind it, in so many splits.
struct Scheme {
  bool normalises_first = false;
  int splits = 1;
};
inline constexpr Scheme schemes[] = {{false, 1}, {true, 1}, {false, 4}};
double modelled(const attest::Problem& problem, const attest::Policy& policy, const Scheme& scheme);

}  // namespace attest::ops::of_attention
