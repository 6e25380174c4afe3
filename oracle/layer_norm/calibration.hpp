#pragma once
#include "core/layer_norm/policy.hpp"
#include "core/layer_norm/problem.hpp"
#include "oracle/calibration.hpp"

namespace attest::oracle::layer_norm {

// The class of a problem: its distribution of values, and whether all of them are moved: "normal", "normal+offset".
std::string calibration_class(const attest::layer_norm::Problem& problem);

// Whether many roundings of a sum may be alike, because x holds few numbers, or numbers in a pattern, or a few that outweigh all:
// then the tier says nothing.
bool outputs_alike(const attest::layer_norm::Problem& problem);

// Where the statistical tier objects (docs/layer-norm.md, section 10).
Thresholds thresholds(const Calibration& calibration, const attest::layer_norm::Policy& policy,
                      const attest::layer_norm::Problem& problem);

// The data that this version of attest was shipped with.
const Calibration& shipped_calibration();

}  // namespace attest::oracle::layer_norm
