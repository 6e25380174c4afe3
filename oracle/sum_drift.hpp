#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "oracle/lanes.hpp"

namespace attest::oracle {

// How far roundings lead a sum to one side, beyond what independent ones come to (docs/bounds.md, tiers two and three). What a running
// sum of ulp U rounds off is told by what is added: how far that is from a multiple of U. Weights of scores that are multiples of 2^-16 lie
// just above multiples of 2^-16, and where U = 2^-15 every other one is rounded up by nearly half an ulp; squares of numbers most of which
// are one of two are rounded alike. The worst of several U, since sums in lanes are smaller.
// `terms` times `unit` is what is added, of at most `largest` in magnitude: padded with 0 to whole lanes. `whole`: the largest running
// sum. `u`: of the sum's format.
inline double drift_of_sum(const std::vector<double>& terms, double unit, double largest, double whole, double u,
                           int levels) {
  constexpr double by_chance = 3;        // standard deviations
  constexpr double rounder = 0x1.8p+52;  // added and taken off: the nearest multiple, ties to even
  double worst = 0;
  const double top = 2 * u * std::ldexp(1.0, std::ilogb(whole));
  for (int level = 0; level < levels; ++level) {
    const double ulp = std::ldexp(top, -level);
    if (!(ulp > 4 * u * largest)) break;  // terms themselves are no finer
    Lanes led = fill(0), either = led, squares = led;
    for (std::size_t t = 0; t < terms.size(); t += lane_count) {
      const Lanes term = load(&terms[t]) * unit;
      const Lanes error = ((term + rounder * ulp) - rounder * ulp) - term, off = abs(error);
      // Ties go either way, for terms are off by an ulp themselves: one way for all that are equal.
      const auto tie = Lanes(0.5 * ulp) - off < 2 * u * abs(term);
      squares += error * error;
      either += zero_unless(tie, off);
      led += error - zero_unless(tie, error);
    }
    worst = std::max(worst, std::fabs(sum(led)) + sum(either) - by_chance * std::sqrt(sum(squares)));
  }
  return worst;
}

}  // namespace attest::oracle
