#pragma once
#include <vector>

#include "core/policy.hpp"
#include "core/problem.hpp"

namespace attest::ops::of_attention {

// A row of attention without masks: one query, all keys, one column of values.
struct PlainRow {
  std::vector<double> q, k, v, bias;  // k: one key after the other; bias: absent, or one for each key
  double scale = 1, softcap = 0;
};
PlainRow plain_row(const attest::Problem& problem);

// A plain kernel of `policy` that adds in order: it normalises the weights before the second product or after it, and
// splits the keys into `splits` parts. modelled() returns its result as the output stage rounds it.
struct Scheme {
  bool normalises_first = false;
  int splits = 1;
};
inline constexpr Scheme schemes[] = {{false, 1}, {true, 1}, {false, 4}};
double modelled(const PlainRow& row, const attest::Policy& policy, const Scheme& scheme);

}  // namespace attest::ops::of_attention
