#pragma once
#include <algorithm>
#include <cmath>
#include <vector>

#include "oracle/lanes.hpp"

namespace attest::oracle {

// How far roundings lead a sum of weights to one side, relatively, and beyond what independent ones come to (docs/bounds.md, tiers two and
// three). What a running sum of ulp U rounds off is told by the weights alone: how far each is from a multiple of U. Scores that are
// multiples of 2^-16 make weights that lie just above multiples of 2^-16, and where U = 2^-15 every other one is rounded up by nearly half
// an ulp. `p`: the weights, in sum 1, padded with 0; `mass`: their sum in units of the largest; `u`: of the sum's format.
inline double drift_of_weights(const std::vector<double>& p, double mass, double u) {
  constexpr int levels = 6;              // sums in lanes are smaller
  constexpr double by_chance = 3;        // standard deviations
  constexpr double rounder = 0x1.8p+52;  // added and taken off: the nearest multiple, ties to even
  double worst = 0;
  const double top = 2 * u * std::ldexp(1.0, std::ilogb(mass));
  for (int level = 0; level < levels; ++level) {
    const double ulp = std::ldexp(top, -level);
    if (!(ulp > 4 * u)) break;  // the weights themselves are no finer
    Lanes led = fill(0), either = led, squares = led;
    for (std::size_t t = 0; t < p.size(); t += lane_count) {
      const Lanes weight = load(&p[t]) * mass;
      const Lanes error = ((weight + rounder * ulp) - rounder * ulp) - weight, off = abs(error);
      // Ties go either way, for weights are off by an ulp themselves: one way for all that are equal.
      const auto tie = Lanes(0.5 * ulp) - off < 2 * u * weight;
      squares += error * error;
      either += zero_unless(tie, off);
      led += error - zero_unless(tie, error);
    }
    const double drift = std::fabs(sum(led)) + sum(either) - by_chance * std::sqrt(sum(squares));
    worst = std::max(worst, drift);
  }
  return worst / mass;
}

}  // namespace attest::oracle
