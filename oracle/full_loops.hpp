#pragma once
// Bodies of Loops that the full formulas ask for, for the files that make it.
#include <cmath>
#include <limits>

#include "oracle/exp.hpp"
#include "oracle/loops.hpp"

namespace attest::oracle::products {

template <class L>
double Loops<L>::weights(const double* z, double z_max, double* p, Index keys) {
  L total = fill<L>(0);
  for (Index t = 0; t < keys; t += lane_count) {
    const L weight = exp(load<L>(z + t) - z_max);
    store(p + t, weight);
    total += weight;
  }
  return sum(total);
}

template <class L>
EndSums Loops<L>::ends(const EndRule& rule, const double* z, const double* widths, double* lo, double* hi, Index keys) {
  L lo_sum = fill<L>(0), hi_sum = lo_sum;
  for (Index t = 0; t < keys; t += lane_count) {
    const L log_weight = load<L>(z + t) - rule.z_max - rule.log_unit, width = load<L>(widths + t) + rule.extra;
    const L upper = exp(min(log_weight + width, fill<L>(600.0)));  // the largest lower end is at least e^-500
    const L lower = min(exp(log_weight - width), upper);
    store(lo + t, lower);
    store(hi + t, upper);
    lo_sum += lower;
    hi_sum += upper;
  }
  return {sum(lo_sum), sum(hi_sum)};
}

template <class L>
double Loops<L>::extreme_mean(const double* lo, const double* hi, const double* values, Index keys, double y,
                              double sign, double hull) {
  for (int step = 0; step < 64; ++step) {
    // A value within rounding of y counts as passed: at its upper weight it would hide what lies beyond.
    const double rounding = 1e-15 * (std::fabs(y) + 1e-300);
    L moment = fill<L>(0), weight = moment;
    for (Index t = 0; t < keys; t += lane_count) {
      const L away = load<L>(values + t) - y;
      const L w = select(sign * away > rounding, load<L>(hi + t), load<L>(lo + t));
      moment += w * away;
      weight += w;
    }
    const double total = sum(weight);
    if (!(total > 0)) return std::numeric_limits<double>::quiet_NaN();
    const double move = sum(moment) / total;
    if (!(sign * move > rounding)) return y;
    y += move;
  }
  return hull;  // no mean lies further out
}

}  // namespace attest::oracle::products
