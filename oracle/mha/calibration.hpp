#pragma once
#include <string>
#include <vector>

#include "core/mha/contract.hpp"
#include "core/mha/inputs.hpp"
#include "core/mha/problem.hpp"
#include "oracle/calibration.hpp"

namespace attest::oracle {

// What the tier looks at of a result, as much as costs little beside a verdict.
struct StatisticalSample {
  std::vector<Index>
      rows;  // of out, b * l + i, ascending: all, or some, spread evenly. Lambda is asked of each of their elements
  Index step = 1;  // T of every so many-th of these, counted row by row from the first
};
StatisticalSample statistical_sample(const mha::Call& call);
StatisticalSample statistical_sample(const mha::Problem& problem);

// The class of a problem: its weights, and whether the tier looks at fewer than four rows, or T at fewer than 128 elements:
// "dense", "dense_in+rows1", "dense_out+few".
std::string calibration_class(const mha::Problem& problem);

// Whether many errors of out may be alike, since weights pick elements or are small integers, or since the same token stands in many
// places, or numbers are so small or so large that roundings are none: then the tier says nothing.
bool outputs_alike(const mha::Problem& problem);

// Where the statistical tier objects (docs/mha.md, section 12): nowhere in a class that is not calibrated.
Thresholds thresholds(const Calibration& calibration, const mha::Policy& policy, const mha::Problem& problem);

// The data that this version of attest was shipped with.
const Calibration& shipped_block_calibration();

}  // namespace attest::oracle
