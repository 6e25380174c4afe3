#pragma once
#include <functional>
#include <span>
#include <vector>

#include "core/format.hpp"
#include "core/index.hpp"

namespace attest::graph {

// The modelled standard deviation of the errors of sums of `terms` numbers, added up in `accumulator` in any order
// (docs/graphs.md section 2). With s a sum, Q its sum of squares, u the unit roundoff and n the number of terms:
//   f u/sqrt 3 sqrt((n + 1) (Q/6 + s^2/3) c + Q)
// a random walk of the partial sums, and inexact products. c >= 1 is the most, over up to 48 of the sums, of sum_g
// c_g^2 / n, c_g the sizes of groups of equal terms other than 0, which meet equal roundings. f >= 1 is the real error
// of those sums when they are added one by one in the accumulator, forwards or backwards, in units of 2.5 deviations:
// it covers stagnation, and errors that c misses.
std::vector<double> deviations(std::span<const double> sums, std::span<const double> squares, Index terms,
                               Format accumulator,
                               const std::function<void(Index sum, std::span<double> to)>& terms_of);

}  // namespace attest::graph
