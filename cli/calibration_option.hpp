#pragma once
#include <memory>

#include "cli/settings.hpp"
#include "oracle/calibration.hpp"

namespace attest::cli {

// --calibration: thresholds of the statistical tiers.
Option calibration_option();
// The shipped data with the policies of that file in place of their own; null if it is not given. Throws Error(usage).
std::shared_ptr<const oracle::Calibration> read_calibration(const Settings& settings);

}  // namespace attest::cli
