#pragma once
#include "core/tensor.hpp"
#include "core/verdict.hpp"
#include "oracle/calibration.hpp"
#include "oracle/oracle.hpp"

namespace attest::properties {

// What the law statistical-bound says of one result. `oracle` judged `out` [B,Hq,Lq,Dv] with the verdict `proven` and gave
// `statistics`.
Verdict statistical_bound_verdict(const Verdict& proven, const oracle::Statistics& statistics,
                                  const oracle::Thresholds& thresholds, oracle::Oracle& oracle, const Tensor& out);

}  // namespace attest::properties
