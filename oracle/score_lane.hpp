#pragma once
// A score of lanes of keys, or of rows, for the files that make Loops.
#include "oracle/exp.hpp"
#include "oracle/lanes.hpp"
#include "oracle/products.hpp"

namespace attest::oracle::products {
namespace {

template <class L>
struct LaneScore {
  L z, error;  // and the least that its error may be, but for what the softmax makes of it
};

// Returns the score that finish_scores() makes of a raw product q.k. `bias` and `open` (0 or -inf) may be null.
template <class L>
ATTEST_LANE_FN LaneScore<L> finish_score(const ScoreRule& rule, const L& product, const double* bias,
                                         const double* open) {
  const double c = rule.softcap;
  LaneScore<L> s{product * rule.scale, {}};
  s.error = rule.per_s * abs(s.z);
  const auto cap = [&]() __attribute__((always_inline)) {
    s.z = c * tanh(s.z / c);
    s.error = min(s.error, fill<L>(2 * c)) + rule.per_capped * abs(s.z);
  };
  if (c > 0 && rule.softcap_before_bias) cap();
  if (bias != nullptr) {
    const L m = load<L>(bias);
    s.z += m;
    s.error += rule.u_score * abs(s.z) + rule.u_bias * abs(m);
  }
  if (c > 0 && !rule.softcap_before_bias) cap();
  if (open != nullptr) s.z += load<L>(open);
  return s;
}

}  // namespace
}  // namespace attest::oracle::products
