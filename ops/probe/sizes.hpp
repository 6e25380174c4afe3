#pragma once
#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "ops/problem.hpp"

namespace attest::ops::probing {

// Adds a problem of an operation to those on which speed is measured, unless another size came to the same or
// `supports` declines it.
template <class Own, class Supports>
void take_size(std::vector<Problem>& taken, Own own, const Supports& supports, Format dtype) {
  if (declined(own, supports, std::span(&dtype, 1))) return;
  Problem problem(std::move(own));
  if (std::ranges::find(taken, problem) == taken.end()) taken.push_back(std::move(problem));
}

}  // namespace attest::ops::probing
