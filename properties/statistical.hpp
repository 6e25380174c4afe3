#pragma once
#include <functional>
#include <string>
#include <string_view>

#include "core/tensor.hpp"
#include "core/verdict.hpp"
#include "oracle/calibration.hpp"
#include "oracle/oracle.hpp"

namespace attest::properties {

// An element of out, and where it may lie for some lambda.
struct NearElement {
  double got = 0, expected = 0, lo = 0, hi = 0;
};

// What the law statistical-bound says of one result, of whichever operation, that the proven bounds gave the verdict `proven`;
// `element`: the one at statistics.index, for a lambda.
Verdict statistical_bound_verdict(const Verdict& proven, const oracle::Statistics& statistics,
                                  const oracle::Thresholds& thresholds,
                                  const std::function<NearElement(double lambda)>& element);
// What aggregate-error says of one that has statistics of enough elements and a threshold of T. `slow_t`: a second look, which may
// lower T; empty: there is none.
Verdict aggregate_error_verdict(const oracle::Statistics& statistics, const oracle::Thresholds& thresholds,
                                const std::function<double(double most)>& slow_t);
// That there is none.
std::string not_calibrated(std::string_view policy, std::string_view calibrated_class);

// The former of attention. `oracle` judged `out` [B,Hq,Lq,Dv] with the verdict `proven` and gave
// `statistics`.
Verdict statistical_bound_verdict(const Verdict& proven, const oracle::Statistics& statistics,
                                  const oracle::Thresholds& thresholds, oracle::Oracle& oracle, const Tensor& out);

}  // namespace attest::properties
