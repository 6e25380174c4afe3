#pragma once
#include "oracle/numbers.hpp"

namespace attest::oracle {

// The least lambda >= 0 for which holds(lambda), to a part in 2^30: an enclosure that grows with lambda holds a value from there on.
// Infinity where even 2^20 is too little.
template <class Holds>
double least_lambda(const Holds& holds) {
  if (holds(0.0)) return 0;
  double lo = 0, hi = 1;
  for (; !holds(hi); hi *= 2) {
    if (hi >= 0x1p20) return infinity;
    lo = hi;
  }
  for (int step = 0; step < 30; ++step) {
    const double middle = 0.5 * (lo + hi);
    (holds(middle) ? hi : lo) = middle;
  }
  return hi;
}

}  // namespace attest::oracle
