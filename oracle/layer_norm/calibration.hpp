#pragma once
#include <string>
#include <vector>

#include "core/layer_norm/policy.hpp"
#include "core/layer_norm/problem.hpp"
#include "oracle/calibration.hpp"

namespace attest::oracle::layer_norm {

// The rows that the tier looks at, ascending: the judged ones, or as many of them, spread evenly, as hold 2^14 elements, one at
// least.
std::vector<Index> statistical_rows(const attest::layer_norm::Problem& problem);

// The class of a problem: its distribution of values, whether all of them are moved, and how few rows the tier looks at: "normal",
// "normal+offset", "normal+rows4" (fewer than 32), "normal+offset+rows1" (fewer than 4).
std::string calibration_class(const attest::layer_norm::Problem& problem);

// Whether many roundings of a sum may be alike, because what is normalised holds few numbers, or numbers in a pattern, or a few that
// outweigh all, or, of RMSNorm, has squares that are nearly one number: then the tier says nothing.
bool outputs_alike(const attest::layer_norm::Problem& problem);

// Whether T speaks of out in this format: in 16 bits, x and out lie on grids so coarse that what out is rounded by may follow x over
// a whole row, as where a root close to 1 gives back every x.
bool has_aggregate(Format out) noexcept;

// Where the statistical tier objects (docs/layer-norm.md, section 10): nowhere in a class that is not calibrated.
Thresholds thresholds(const Calibration& calibration, const attest::layer_norm::Policy& policy,
                      const attest::layer_norm::Problem& problem);

// The data that this version of attest was shipped with.
const Calibration& shipped_calibration();

}  // namespace attest::oracle::layer_norm
